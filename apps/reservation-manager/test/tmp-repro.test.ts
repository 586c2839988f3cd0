import fc from "fast-check";
import { expect, it } from "vitest";
import { NaivePreemption, type PreemptionEvent, type PreemptionOperation } from "./naive-preempting-ledger.ts";
import { isEnough, isMinimal, planGrant, planPreemption, victimsOf } from "./naive-preemption.ts";
import { NaiveQueues } from "./naive-queues.ts";
import { forestIn, waitingIn, type PreemptionWorld } from "./naive-world.ts";
import { exceededBy, faultsOf, forgottenIn, keptFromOwnQuota } from "./preemption-history.ts";
import {
  changingRuns,
  machineRuns,
  operationOf,
  plentyOfNodes,
  quotaRuns,
  type PreemptionRun,
} from "./random-preemption.ts";
import { queueOperations, rivalOperations, type QueueOperation } from "./random-queues.ts";

type Step = {
  readonly operation: PreemptionOperation;
  readonly before: PreemptionWorld;
  readonly after: PreemptionWorld;
  /** All events since the start of the run. */
  readonly events: readonly PreemptionEvent[];
  readonly isNew: (event: PreemptionEvent) => boolean;
};

function play({ nodes, queues, drafts }: PreemptionRun, check?: (step: Step) => void) {
  const ledger = new NaivePreemption(nodes);
  for (const queue of queues) ledger.step({ kind: "put", queue });
  const events: PreemptionEvent[] = [];
  for (const [count, draft] of drafts.entries()) {
    const before = ledger.world;
    const operation = operationOf(draft, before, count);
    if (operation === undefined) continue;
    const news = ledger.step(operation).events;
    events.push(...news);
    check?.({ operation, before, after: ledger.world, events, isNew: (event) => news.includes(event) });
  }
  return { ledger, events };
}

/** A victim stays if its beneficiary ends. Another beneficiary may have waited for that victim as well. */
function expectServed(events: readonly PreemptionEvent[]): void {
  if (events.some(({ kind }) => kind === "withdrawn")) return;
  expect(forgottenIn(events)).toEqual([]);
}

/** Removes past use, which the reference of preemption does not count. */
function withoutPastUse(operation: QueueOperation): QueueOperation {
  if (operation.kind !== "put") return operation;
  const { pastUseHalfLifeMs: _, ...queue } = operation.queue;
  return { ...operation, queue };
}

it("decides as the reference of queues does where no queue preempts", () => {
  fc.assert(
    fc.property(fc.oneof(queueOperations, rivalOperations), (operations) => {
      const trace: string[] = []; const ledger = new NaivePreemption(plentyOfNodes);
      const queues = new NaiveQueues(forestIn(ledger.world).allocatable);
      for (const each of operations) {
        const operation = withoutPastUse(each);
        const pre = ledger.world; const { verdict, events } = ledger.step(operation); trace.push(JSON.stringify(operation)+' -> '+JSON.stringify(events)+JSON.stringify(verdict));
        const grants = events.flatMap(({ kind, sequence }) => (kind === "granted" ? [sequence] : []));
        const q = queues.step(operation); if (JSON.stringify(q.grants) !== JSON.stringify(grants)) console.log(trace.join('\n'), '\nqueues:', JSON.stringify(q), '\nWORLD', JSON.stringify(pre)); expect({ ...(verdict !== undefined && { verdict }), grants }).toEqual(q);
      }
    }),
    { numRuns: 60000 },
  );
});
