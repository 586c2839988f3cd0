import { buildExplanation } from "../src/domain/decisions/build-explanation.ts";
import type { ReservationRequest } from "../src/domain/decisions/check-request.ts";
import type { Verdict } from "../src/domain/decisions/decide-reservation.ts";
import type { Explanation } from "../src/domain/decisions/explanation.ts";
import { findReservation } from "../src/domain/ledger/ledger.ts";
import type { NodeFacts } from "../src/domain/ledger/machines.ts";
import type { Queue } from "../src/domain/ledger/queue.ts";
import type { QueueOperation } from "./random-queues.ts";
import {
  toAmounts,
  makeNode,
  makeOwner,
  makeParts,
  policy,
  makeRequest,
  startRun,
  stepRun,
  type LedgerRun,
} from "./random-world.ts";

/** More than all requests of a run together. */
const PLENTY = toAmounts({ cpu: 1000, memory: 1000, pods: 1000 });

/** A policy without holds for overdue requests. */
export const PATIENT = { ...policy, holdAfterMs: Number.POSITIVE_INFINITY };

/** Starts a run with one machine per pool that has room for everything, so that only quotas and order decide. */
export function startQueueRun(): LedgerRun {
  return startRun(["a", "b"].map((pool) => makeNode(`n-${pool}`, pool, { allocatable: PLENTY })));
}

/** Starts a run with these queues, set one after the other. */
export function startWithQueues(nodes: readonly NodeFacts[], queues: readonly Queue[]): LedgerRun {
  const run = startRun(nodes);
  for (const queue of queues) stepRun(run, { kind: "queue", queue });
  return run;
}

/** Requests, as a job, parts of pool a with these amounts of cpu. */
export function askForCpu(
  run: LedgerRun,
  id: string,
  cpu: number | readonly number[],
  more: Partial<ReservationRequest> = {},
): Verdict | undefined {
  const needs = makeParts("a", ...[cpu].flat().map((each) => ({ cpu: each })));
  return stepRun(run, {
    kind: "reserve",
    request: makeRequest(id, [], { owner: makeOwner(id, "job"), needs, ...more }),
  });
}

export function explainRequest(run: LedgerRun, id: string, kind = "job"): Explanation {
  const reservation = findReservation(run.world.ledger, makeOwner(id, kind));
  if (reservation === undefined) throw new Error(`${id} has no reservation`);
  return buildExplanation(reservation, run.world, policy, run.nowMs);
}

export function stepQueue(run: LedgerRun, operation: QueueOperation): Verdict | undefined {
  switch (operation.kind) {
    case "put":
      return stepRun(run, { kind: "queue", queue: operation.queue }, PATIENT);
    case "remove":
      return stepRun(run, { kind: "unqueue", name: operation.name }, PATIENT);
    case "wait":
    case "release":
      return stepRun(run, operation, PATIENT);
    case "reserve": {
      const { owner, needs, priority, queue } = operation;
      const request = makeRequest("", [], { owner, needs, priority, ...(queue !== undefined && { queue }) });
      return stepRun(run, { kind: "reserve", request }, PATIENT);
    }
  }
}
