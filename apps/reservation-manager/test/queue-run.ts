import type { Verdict } from "../src/domain/decisions/decide-reservation.ts";
import type { QueueOperation } from "./random-queues.ts";
import { amounts, nodeOf, policy, requestOf, startRun, step, type Run } from "./random-world.ts";

/** More than all requests of a run together. */
const PLENTY = amounts({ cpu: 1000, memory: 1000, pods: 1000 });

/** Nothing is kept for requests that wait long. */
export const PATIENT = { ...policy, holdAfterMs: Number.POSITIVE_INFINITY };

/** A world with one machine in each pool that has room for everything, so that only quotas and order decide. */
export function startQueueRun(): Run {
  return startRun(["a", "b"].map((pool) => nodeOf(`n-${pool}`, pool, { allocatable: PLENTY })));
}

export function stepQueue(run: Run, operation: QueueOperation): Verdict | undefined {
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
