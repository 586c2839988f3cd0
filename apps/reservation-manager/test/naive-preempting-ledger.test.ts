import fc from "fast-check";
import { expect, it } from "vitest";
import { NaivePreemption, type PreemptionEvent, type PreemptionOperation } from "./naive-preempting-ledger.ts";
import { isEnough, isMinimal, planGrant, planPreemption, victimsOf } from "./naive-preemption.ts";
import { NaiveQueues } from "./naive-queues.ts";
import { forestIn, waitingIn, type PreemptionWorld } from "./naive-world.ts";
import { listExceeded, listFaults, listForgotten, listKeptFromOwnQuota } from "./preemption-history.ts";
import {
  changingRuns,
  machineRuns,
  buildOperation,
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
    const operation = buildOperation(draft, before, count);
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
  expect(listForgotten(events)).toEqual([]);
}

it.each([
  ["quotas", quotaRuns],
  ["quotas that change", changingRuns],
  ["machines", machineRuns],
])(
  "leaves nothing that could be granted or preempted, and has no fault in its history, where %s are short",
  (_, runs) => {
    fc.assert(
      fc.property(runs, (run) => {
        play(run, ({ after, events }) => {
          expect([planGrant(after), planPreemption(after)]).toEqual([undefined, undefined]);
          expect(listFaults(events)).toEqual([]);
          if (runs === quotaRuns) expectServed(events);
        });
      }),
      { numRuns: 10 },
    );
  },
);

it("exceeds no limit at a grant, and lets no borrower use a queue's own quota, where no work is protected", () => {
  fc.assert(
    fc.property(quotaRuns, ({ queues, ...run }) => {
      const open = queues.map((queue) => ({ ...queue, minRunTimeMs: 0, permitsNonPreemptible: false }));
      play({ ...run, queues: open }, ({ after, events, isNew }) => {
        const grants = events.filter((event) => event.kind === "granted" && isNew(event));
        const granted = after.work.filter(({ sequence }) => grants.some((grant) => grant.sequence === sequence));
        expect(granted.flatMap((work) => listExceeded(after, work))).toEqual([]);
        // The promise to a beneficiary cannot be preempted before it is granted.
        if (waitingIn(after).some(({ promise }) => promise !== undefined)) return;
        const left = after.work.filter(({ preemptedFor }) => preemptedFor !== undefined);
        expect(listKeptFromOwnQuota(after).filter((each) => left.every(({ sequence }) => sequence !== each))).toEqual(
          [],
        );
      });
    }),
    { numRuns: 10 },
  );
});

it.each([
  ["quotas", quotaRuns],
  ["machines", machineRuns],
])("finds sufficient and minimal victims where %s are short", (_, runs) => {
  let found = 0;
  fc.assert(
    fc.property(runs, (run) => {
      play(run, ({ operation, before }) => {
        if (operation.kind !== "reserve") return;
        const { queue, ...request } = operation;
        const sequence = 1000;
        const work = { ...request, ...(queue !== undefined && { queue }), sequence, createdAtMs: before.nowMs };
        const world = { ...before, work: [...before.work, work] };
        const victims = victimsOf(world, sequence)?.victims.map((victim) => victim.sequence);
        if (victims === undefined) return;
        found += 1;
        expect([isEnough(world, sequence, victims), isMinimal(world, sequence, victims)]).toEqual([true, true]);
      });
    }),
    { numRuns: 10 },
  );
  expect(found).toBeGreaterThan(0);
});

it("serves every beneficiary by the time that the last victim has left", () => {
  fc.assert(
    fc.property(quotaRuns, (run) => {
      const { ledger, events } = play(run);
      // Contradicting policies may preempt work in an endless cycle.
      for (let count = 0; count < 50; count += 1) {
        const leaving = ledger.world.work.find(({ grant }) => grant?.leaving !== undefined);
        if (leaving === undefined) break;
        events.push(...ledger.step({ kind: "requeue", owner: leaving.owner }).events);
        expectServed(events);
      }
      expect(listFaults(events)).toEqual([]);
    }),
    { numRuns: 10 },
  );
});

/** Removes past use, which the reference of preemption does not count. */
function withoutPastUse(operation: QueueOperation): QueueOperation {
  if (operation.kind !== "put") return operation;
  const { pastUseHalfLifeMs: _, ...queue } = operation.queue;
  return { ...operation, queue };
}

it("decides as the reference of queues does where no queue preempts", () => {
  fc.assert(
    fc.property(fc.oneof(queueOperations, rivalOperations), (operations) => {
      const ledger = new NaivePreemption(plentyOfNodes);
      const queues = new NaiveQueues(forestIn(ledger.world).allocatable);
      for (const each of operations) {
        const operation = withoutPastUse(each);
        const { verdict, events } = ledger.step(operation);
        const grants = events.flatMap(({ kind, sequence }) => (kind === "granted" ? [sequence] : []));
        expect({ ...(verdict !== undefined && { verdict }), grants }).toEqual(queues.step(operation));
      }
    }),
    { numRuns: 30 },
  );
});
