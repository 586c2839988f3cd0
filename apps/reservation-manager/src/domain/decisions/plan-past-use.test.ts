import { describe, expect, it } from "vitest";
import { startQueueRun, stepQueue } from "../../../test/queue-run.ts";
import { toAmounts, makeOwner, policy, makeQueue, type LedgerRun } from "../../../test/random-world.ts";
import { snapshotCodec } from "../../adapters/snapshot-codec.ts";
import { findReservation, restoreLedger, type LedgerEvent } from "../ledger/ledger.ts";
import { noPastUse } from "../ledger/past-use.ts";
import type { Queue } from "../ledger/queue.ts";
import { runToEnd } from "../ledger/steps.ts";
import type { WaitingTrees } from "../ledger/waiting-trees.ts";
import { buildExplanation } from "./build-explanation.ts";
import { MAX_COUNTED_QUEUES, planPastUse } from "./plan-past-use.ts";

const HALF_LIFE_MS = 3_200_000;
const INTERVAL_MS = HALF_LIFE_MS / 32;
const CPU = "a cpu";

const root = makeQueue("root", { [CPU]: 8 }, { pastUseHalfLifeMs: HALF_LIFE_MS });
const ai = makeQueue("ai", {}, { parent: "root" });
const web = makeQueue("web", {}, { parent: "root" });
const ops = makeQueue("ops", {}, { parent: "root" });

function runOf(...queues: readonly Queue[]): LedgerRun {
  const run = startQueueRun();
  for (const queue of queues) stepQueue(run, { kind: "put", queue });
  return run;
}

function reserve(run: LedgerRun, id: string, queue: string, cpu: number): void {
  const needs = [{ component: "c", pool: "a", shared: toAmounts({ cpu }) }];
  stepQueue(run, { kind: "reserve", owner: makeOwner(id, "job"), queue, needs, priority: 0 });
}

function release(run: LedgerRun, id: string): void {
  stepQueue(run, { kind: "release", owner: makeOwner(id, "job") });
}

function pass(run: LedgerRun, intervals: number): void {
  for (let count = 0; count < intervals; count += 1) stepQueue(run, { kind: "wait", ms: INTERVAL_MS });
}

function pastOf({ world }: LedgerRun, queue: string): number {
  return world.ledger.pastUse.get("root")?.shares.get(queue) ?? 0;
}

function pastSharesOf(trees: WaitingTrees, above = ""): Readonly<Record<string, number>> {
  const found = [...trees.entries()].map(([name, { pastShare, children }]) => {
    return { [`${above}${name}`]: pastShare, ...pastSharesOf(children, `${above}${name}/`) };
  });
  return Object.assign({}, ...found) as Readonly<Record<string, number>>;
}

function countsOf({ events }: LedgerRun): readonly LedgerEvent[] {
  return events.filter(({ kind }) => kind === "pastUseCounted");
}

function granted({ world }: LedgerRun): readonly string[] {
  return [...world.ledger.reservations.values()].flatMap(({ owner, grant }) => (grant ? [owner.id.slice(1)] : []));
}

describe("past borrowing", () => {
  it("is not counted below a queue without a half-life", () => {
    const run = runOf(makeQueue("root", { [CPU]: 8 }), ai);
    reserve(run, "1", "ai", 4);
    pass(run, 3);
    expect(countsOf(run)).toEqual([]);
    expect(planPastUse(run.world, run.nowMs)).toEqual({ events: [], againAtMs: undefined });
  });

  it("is not counted while no queue borrows, and is checked again after an interval", () => {
    const run = runOf(root, ai);
    pass(run, 3);
    expect(countsOf(run)).toEqual([]);
    expect(planPastUse(run.world, run.nowMs)).toEqual({ events: [], againAtMs: run.nowMs + INTERVAL_MS });
  });

  it("halves after one half-life, and is forgotten eventually", () => {
    const run = runOf(root, ai);
    reserve(run, "1", "ai", 4);
    pass(run, 64);
    const after = pastOf(run, "ai");
    release(run, "1");
    pass(run, 32);
    expect(after).toBeGreaterThan(370_000);
    expect(after).toBeLessThan(500_000);
    expect(pastOf(run, "ai") / after).toBeCloseTo(0.5, 3);
    pass(run, 32 * 25);
    expect(run.world.ledger.pastUse.size).toBe(0);
  });

  it("counts for at most two intervals after a time without counts, during which the past decays", () => {
    const run = runOf(root, ai);
    reserve(run, "1", "ai", 8);
    pass(run, 32);
    stepQueue(run, { kind: "wait", ms: 20 * HALF_LIFE_MS });
    expect(pastOf(run, "ai")).toBeCloseTo((1 - 2 ** (-2 / 32)) * 1_000_000, -2);
  });

  it("is not counted again before an interval is over", () => {
    const run = runOf(root, ai);
    reserve(run, "1", "ai", 4);
    const { length } = countsOf(run);
    stepQueue(run, { kind: "wait", ms: INTERVAL_MS - 1 });
    expect(countsOf(run)).toHaveLength(length);
    expect(planPastUse(run.world, run.nowMs).againAtMs).toBe(run.nowMs + 1);
  });

  it("is forgotten when the half-life is removed", () => {
    const run = runOf(root, ai);
    reserve(run, "1", "ai", 4);
    pass(run, 2);
    expect(pastOf(run, "ai")).toBeGreaterThan(0);
    stepQueue(run, { kind: "put", queue: makeQueue("root", { [CPU]: 8 }) });
    expect(run.world.ledger.pastUse.size).toBe(0);
  });

  it("is never used by preemption", () => {
    const run = runOf(root, ai, { ...web, fairSharing: "Any" });
    reserve(run, "old", "ai", 8);
    pass(run, 32);
    release(run, "old");
    reserve(run, "a", "ai", 4);
    reserve(run, "b", "web", 4);
    // Afterwards web would use 5/8, above the 4/8 of ai, which borrowed more in the past.
    reserve(run, "w", "web", 1);
    expect(pastOf(run, "ai")).toBeGreaterThan(400_000);
    expect(run.world.ledger.leaving.size).toBe(0);
    expect(granted(run)).toEqual(["a", "b"]);
  });

  it("is kept by a snapshot", async () => {
    const run = runOf(root, ai);
    reserve(run, "1", "ai", 4);
    pass(run, 2);
    const restored = await snapshotCodec.assemble([...snapshotCodec.pieces(run.world.ledger)]);
    expect([...restored.pastUse.entries()]).toEqual([...run.world.ledger.pastUse.entries()]);
  });

  it("changes only the tree of the parent queue, which equals the tree that a snapshot restores", async () => {
    const other = makeQueue("other", { [CPU]: 1 });
    const run = runOf(root, ai, web, other, makeQueue("leaf", {}, { parent: "other" }));
    reserve(run, "1", "ai", 8);
    reserve(run, "2", "leaf", 1);
    for (const queue of ["ai", "web", "leaf"]) reserve(run, `waits-${queue}`, queue, 1);
    const treesBefore = run.world.ledger.trees;
    pass(run, 2);
    const { trees } = run.world.ledger;
    const restored = await snapshotCodec.assemble([...snapshotCodec.pieces(run.world.ledger)]);
    expect(countsOf(run).length).toBeGreaterThan(0);
    expect(trees.get("root")).not.toBe(treesBefore.get("root"));
    expect(trees.get("other")).toBe(treesBefore.get("other"));
    expect(pastSharesOf(trees)).toEqual(pastSharesOf(restored.trees));
    expect(pastSharesOf(trees)).toMatchObject({ "root/ai": pastOf(run, "ai") });
  });

  it.each([-365, 365])("is counted again soon if the clock was %i days off at the last count", (days) => {
    const run = runOf(root, ai);
    reserve(run, "1", "ai", 8);
    pass(run, 32);
    const { ledger } = run.world;
    const shares = ledger.pastUse.get("root")?.shares ?? new Map<string, number>();
    const pastUse = ledger.pastUse.set("root", { atMs: run.nowMs + days * 86_400_000, shares });
    const plan = planPastUse({ ...run.world, ledger: { ...ledger, pastUse } }, run.nowMs);
    expect(plan.events).toMatchObject([{ kind: "pastUseCounted", parent: "root", atMs: run.nowMs }]);
  });

  it(`is counted of ${MAX_COUNTED_QUEUES} queues below one at most, those with the largest past`, () => {
    const names = Array.from({ length: MAX_COUNTED_QUEUES + 10 }, (_, index) => `q${index}`);
    const leaves = names.map((name) => makeQueue(name, {}, { parent: "root" }));
    const shares = new Map(names.map((name, index): [string, number] => [name, index < 10 ? 1000 : 2000]));
    const { world, nowMs: atMs } = runOf();
    const pastUse = noPastUse.set("root", { atMs, shares });
    const ledger = runToEnd(restoreLedger([], 1, { queues: [root, ...leaves], pastUse }));
    const [event] = planPastUse({ ...world, ledger }, atMs + INTERVAL_MS).events;
    expect(event).toMatchObject({ kind: "pastUseCounted", parent: "root" });
    const counted = event?.kind === "pastUseCounted" ? [...event.shares.keys()] : [];
    expect(counted).toHaveLength(MAX_COUNTED_QUEUES);
    expect(names.slice(0, 10).some((name) => counted.includes(name))).toBe(false);
  });
});

describe("the order of queues", () => {
  it("prefers the queue that borrowed less in the past if both borrow alike now", () => {
    const run = runOf(root, ai, web, ops);
    reserve(run, "old", "ai", 8);
    pass(run, 16);
    release(run, "old");
    reserve(run, "busy", "ops", 8);
    reserve(run, "a", "ai", 5);
    reserve(run, "w", "web", 5);
    expect(buildExplanation(knownOf(run, "a"), run.world, policy, run.nowMs).requestsAhead?.listed).toMatchObject([
      { owner: makeOwner("w", "job"), rule: "SHARE" },
    ]);
    release(run, "busy");
    expect(granted(run)).toEqual(["w"]);
  });

  it("is by age if no past use is known", () => {
    const run = runOf(makeQueue("root", { [CPU]: 8 }), ai, web, ops);
    reserve(run, "busy", "ops", 8);
    reserve(run, "a", "ai", 5);
    reserve(run, "w", "web", 5);
    release(run, "busy");
    expect(granted(run)).toEqual(["a"]);
  });
});

function knownOf({ world }: LedgerRun, id: string) {
  const reservation = findReservation(world.ledger, makeOwner(id, "job"));
  if (reservation === undefined) throw new Error(`${id} has no reservation`);
  return reservation;
}
