import fc from "fast-check";
import { expect, it } from "vitest";
import { NaiveQueues } from "../../../test/naive-queues.ts";
import { PATIENT, startQueueRun, stepQueue } from "../../../test/queue-run.ts";
import {
  queueOperations,
  queueOperationsWithoutChanges,
  poolOperations,
  rivalOperations,
  type QueueOperation,
} from "../../../test/random-queues.ts";
import type { LedgerRun } from "../../../test/random-world.ts";
import type { Queue } from "../ledger/queue.ts";
import type { Verdict } from "./decide-reservation.ts";
import { explainWaiting } from "./explain-waiting.ts";
import { findHolds } from "./find-hold.ts";
import { sumPoolAmounts } from "./sum-pool-amounts.ts";

function sayVerdict(verdict: Verdict | undefined): string {
  if (verdict === undefined) return "";
  if (verdict.kind === "limit") throw new Error("no request has a limit");
  if (verdict.kind === "refuse") return verdict.fault.code.toUpperCase();
  const kinds = { answer: "known", grant: "granted", queue: "waiting" } as const;
  return `${kinds[verdict.kind]} ${verdict.sequence}`;
}

function printNaive(naive: NaiveQueues, operation: QueueOperation): { verdict: string; grants: readonly number[] } {
  const { verdict, grants } = naive.step(operation);
  if (verdict === undefined) return { verdict: "", grants };
  return { verdict: verdict.kind === "refused" ? verdict.code : `${verdict.kind} ${verdict.sequence}`, grants };
}

function waitsOf({ world, nowMs }: LedgerRun) {
  const holds = findHolds(world, PATIENT, nowMs);
  return [...world.ledger.queue.places.keys()]
    .map(({ sequence }) => sequence)
    .sort((a, b) => a - b)
    .map((sequence) => {
      const reservation = world.ledger.reservations.get(sequence);
      return { sequence, code: reservation && explainWaiting(reservation, world, holds)?.code };
    });
}

it.each([
  ["that change", queueOperations],
  ["that do not change", queueOperationsWithoutChanges],
  ["that compete", rivalOperations],
  ["of two pools that work accepts", poolOperations],
])("decides in queues %s as the reference does, which recomputes each formula", (_which, operations) => {
  fc.assert(fc.property(operations, expectSameDecisions), {
    numRuns: Number(process.env["MUSTER_QUEUE_WORLDS"] ?? 300),
  });
});

function expectSameDecisions(steps: readonly QueueOperation[]): void {
  const run = startQueueRun();
  const naive = new NaiveQueues(sumPoolAmounts(run.world.machines));
  for (const operation of steps) {
    const before = run.events.length;
    const verdict = sayVerdict(stepQueue(run, operation));
    const grants = run.events.slice(before).flatMap((event) => (event.kind === "granted" ? [event.sequence] : []));
    expect({ verdict, grants }).toEqual(printNaive(naive, operation));
    expect(waitsOf(run)).toEqual(naive.waits());
  }
}

it("grants a request that arrives before another one that its arrival unblocks", () => {
  const queue = (name: string, parent: string | undefined, cpu: number, rest: Partial<Queue> = {}): QueueOperation => ({
    kind: "put",
    queue: {
      name,
      ...(parent !== undefined && { parent }),
      weightMilli: 1000,
      strategy: "StrictFIFO",
      stopPolicy: "None",
      quotas: new Map([["a cpu", { nominal: cpu }]]),
      ...rest,
    },
  });
  let owners = 0;
  const reserve = (name: string, cpu: number, priority = 0): QueueOperation => ({
    kind: "reserve",
    queue: name,
    needs: [{ component: "c0", pool: "a", shared: new Map([["cpu", cpu]]) }],
    priority,
    owner: { kind: "job", id: `o${owners++}` },
  });
  expectSameDecisions([
    queue("all", undefined, 2),
    // The queue has weight 0: its work that borrows comes last.
    queue("idle", "all", 0, { weightMilli: 0 }),
    queue("busy", "idle", 2),
    queue("owner", "idle", 6),
    queue("other", "all", 2),
    reserve("busy", 8),
    // Quota is kept for this request, so that "other" may not borrow.
    reserve("owner", 6),
    reserve("other", 3),
    // An older request of the same queue, for which the ledger keeps no quota.
    reserve("owner", 1, 2),
  ]);
});
