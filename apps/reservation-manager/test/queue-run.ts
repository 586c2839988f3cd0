import { buildExplanation } from "../src/domain/decisions/build-explanation.ts";
import type { ReservationRequest } from "../src/domain/decisions/check-request.ts";
import type { ReservationVerdict } from "../src/domain/decisions/decide-reservation.ts";
import type { Explanation } from "../src/domain/decisions/explanation.ts";
import { findReservation } from "../src/domain/ledger/ledger.ts";
import type { NodeFacts } from "../src/domain/ledger/machines.ts";
import type { Queue } from "../src/domain/ledger/queue.ts";
import type { QueueOperation } from "./random-queues.ts";
import { amounts, nodeOf, ownerOf, partsOf, policy, requestOf, startRun, step, type Run } from "./random-world.ts";

/** More than all requests of a run together. */
const PLENTY = amounts({ cpu: 1000, memory: 1000, pods: 1000 });

/** A policy without holds for overdue requests. */
export const PATIENT = { ...policy, holdAfterMs: Number.POSITIVE_INFINITY };

/** Starts a run with one machine per pool that has room for everything, so that only quotas and order decide. */
export function startQueueRun(): Run {
  return startRun(["a", "b"].map((pool) => nodeOf(`n-${pool}`, pool, { allocatable: PLENTY })));
}

/** Starts a run with these queues, set one after the other. */
export function startWithQueues(nodes: readonly NodeFacts[], queues: readonly Queue[]): Run {
  const run = startRun(nodes);
  for (const queue of queues) step(run, { kind: "queue", queue });
  return run;
}

/** Requests, as a job, parts of pool a with these amounts of cpu. */
export function askForCpu(
  run: Run,
  id: string,
  cpu: number | readonly number[],
  more: Partial<ReservationRequest> = {},
): ReservationVerdict | undefined {
  const needs = partsOf("a", ...[cpu].flat().map((each) => ({ cpu: each })));
  return step(run, { kind: "reserve", request: requestOf(id, [], { owner: ownerOf(id, "job"), needs, ...more }) });
}

export function explain(run: Run, id: string, kind = "job"): Explanation {
  const reservation = findReservation(run.world.ledger, ownerOf(id, kind));
  if (reservation === undefined) throw new Error(`${id} has no reservation`);
  return buildExplanation(reservation, run.world, policy, run.nowMs);
}

export function stepQueue(run: Run, operation: QueueOperation): ReservationVerdict | undefined {
  switch (operation.kind) {
    case "put":
      return step(run, { kind: "queue", queue: operation.queue }, PATIENT);
    case "remove":
      return step(run, { kind: "unqueue", name: operation.name }, PATIENT);
    case "wait":
    case "release":
      return step(run, operation, PATIENT);
    case "reserve": {
      const { owner, needs, priority, queue } = operation;
      const request = requestOf("", [], { owner, needs, priority, ...(queue !== undefined && { queue }) });
      return step(run, { kind: "reserve", request }, PATIENT);
    }
  }
}
