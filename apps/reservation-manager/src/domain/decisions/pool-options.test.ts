import { describe, expect, it } from "vitest";
import {
  toAmounts,
  makeNode,
  makeOwner,
  policy,
  makeQueue,
  makeRequest,
  startRun,
  stepRun,
  type LedgerRun,
} from "../../../test/random-world.ts";
import type { Queue } from "../ledger/queue.ts";
import type { Need } from "../ledger/reservation.ts";
import { buildDemand } from "./build-demand.ts";
import type { ReservationRequest } from "./check-request.ts";
import { explainWaiting } from "./explain-waiting.ts";
import { findHolds } from "./find-hold.ts";

function anyOf(pool: string, ...otherPools: readonly string[]): readonly Need[] {
  return [{ component: "c0", pool, otherPools }];
}

/** Needs that take all cpu of a machine as a part, so that the quota has to name only cpu. */
function cpuOf(pool: string, ...otherPools: readonly string[]): readonly Need[] {
  return [{ component: "c0", pool, ...(otherPools.length > 0 && { otherPools }), shared: toAmounts({ cpu: 8 }) }];
}

function worldOf(nodes: readonly string[], ...queues: readonly Queue[]): LedgerRun {
  const run = startRun(nodes.map((name) => makeNode(name, name.slice(0, 1))));
  for (const queue of queues) stepRun(run, { kind: "queue", queue });
  return run;
}

function ask(run: LedgerRun, id: string, needs: readonly Need[], more: Partial<ReservationRequest> = {}) {
  return stepRun(run, { kind: "reserve", request: makeRequest(id, [], { needs, ...more }) });
}

type Work = { readonly id: string; readonly pool: string; readonly queue?: string; readonly priority?: number };

/** The nodes that each reservation has. */
function granted({ world }: LedgerRun): Readonly<Record<string, string>> {
  const all = [...world.ledger.reservations.values()];
  return Object.fromEntries(
    all.map(({ owner, grant }) => [owner.id.slice(1), (grant?.machines ?? []).map(({ node }) => node).join(" ")]),
  );
}

describe("a request that accepts several pools", () => {
  it("gets the preferred pool, and the next one if that is held", () => {
    const run = worldOf(["a1", "b1"]);
    ask(run, "x", anyOf("b", "a"));
    ask(run, "y", anyOf("b", "a"));
    expect(granted(run)).toEqual({ x: "b1", y: "a1" });
  });

  it.each([["a1"], ["b1"]])("waits once, and gets %s when it becomes free", (node) => {
    const run = worldOf(["a1", "b1"]);
    ask(run, "a", [{ component: "c0", pool: "a" }]);
    ask(run, "b", [{ component: "c0", pool: "b" }]);
    ask(run, "x", anyOf("a", "b"));
    ask(run, "y", anyOf("a", "b"));
    expect(run.world.ledger.queue.places.size).toBe(2);
    stepRun(run, { kind: "release", owner: makeOwner(node.slice(0, 1)) });
    expect(granted(run)).toMatchObject({ x: node, y: "" });
    expect(run.world.ledger.queue.places.size).toBe(1);
  });

  it("has equal needs in one pool, and others where they accept machines", () => {
    const run = worldOf(["a1", "b1", "b2", "c1"]);
    const needs = ["c0", "c1"].map((component) => ({ component, pool: "a", otherPools: ["b"] }));
    ask(run, "x", [...needs, { component: "c2", pool: "a", otherPools: ["c"] }]);
    expect(granted(run)).toEqual({ x: "b1 b2 a1" });
  });

  it("uses what its queue owns in another pool before it borrows in the preferred one", () => {
    const root = makeQueue("root", { "a cpu": 8, "b cpu": 0 });
    const leaf = makeQueue("leaf", { "a cpu": 0, "b cpu": 8 }, { parent: "root" });
    const run = worldOf(["a1", "b1"], root, leaf);
    ask(run, "x", cpuOf("a", "b"), { queue: "leaf" });
    ask(run, "y", cpuOf("a", "b"), { queue: "leaf" });
    expect(granted(run)).toEqual({ x: "b1", y: "a1" });
  });

  it("uses what its queue owns in another pool after a wait, too", () => {
    const root = makeQueue("root", { "a cpu": 8, "b cpu": 0 });
    const leaf = makeQueue("leaf", { "a cpu": 0, "b cpu": 8 }, { parent: "root" });
    const run = worldOf(["a1", "b1"], root, leaf);
    ask(run, "both", [...cpuOf("a"), { ...cpuOf("b")[0]!, component: "c1" }]);
    ask(run, "x", cpuOf("a", "b"), { queue: "leaf" });
    expect(granted(run)).toEqual({ both: "a1 b1", x: "" });
    stepRun(run, { kind: "release", owner: makeOwner("both") });
    expect(granted(run)).toEqual({ x: "b1" });
  });

  it("borrows in another pool before it reclaims its own quota in the preferred one", () => {
    const root = makeQueue("root", { "a cpu": 8, "b cpu": 8 });
    const owner = makeQueue("owner", { "a cpu": 8, "b cpu": 0 }, { parent: "root", reclaim: "Any" });
    const run = worldOf(["a1", "b1"], root, owner, makeQueue("borrower", {}, { parent: "root" }));
    ask(run, "p", cpuOf("a"), { queue: "borrower", owner: makeOwner("p", "job") });
    ask(run, "x", cpuOf("a", "b"), { queue: "owner" });
    expect(granted(run)).toEqual({ p: "a1", x: "b1" });
    expect(run.world.ledger.leaving.size).toBe(0);
  });

  it("has a hold where most of it fits, and is blocked by none of its own options", () => {
    const run = worldOf(["a1", "a2", "b1", "b2"]);
    ask(run, "a", [
      { component: "c0", pool: "a" },
      { component: "c1", pool: "a" },
    ]);
    ask(run, "b", [{ component: "c0", pool: "b" }]);
    ask(
      run,
      "x",
      ["c0", "c1"].map((component) => ({ component, pool: "a", otherPools: ["b"] })),
    );
    stepRun(run, { kind: "wait", ms: policy.holdAfterMs + 1 });
    ask(run, "y", [{ component: "c0", pool: "b" }]);
    expect(granted(run)).toMatchObject({ x: "", y: "" });
    stepRun(run, { kind: "release", owner: makeOwner("a") });
    expect(granted(run)).toMatchObject({ x: "a1 a2", y: "b2" });
  });

  it("is explained with the first pool that can ever be granted", () => {
    const run = worldOf(["a1", "b1", "b2"]);
    ask(run, "y", [{ component: "c0", pool: "b" }]);
    ask(
      run,
      "x",
      ["c0", "c1"].map((component) => ({ component, pool: "a", otherPools: ["b"] })),
    );
    const reservation = [...run.world.ledger.reservations.values()].at(-1);
    const holds = findHolds(run.world, policy, run.nowMs);
    expect(reservation && explainWaiting(reservation, run.world, holds)).toMatchObject({
      ...{ code: "POOL_AVAILABILITY", pool: "b", requested: 2, available: 1 },
    });
  });

  it("is counted once in the demand, for the pools in which its quota admits it, the nearest quota first", () => {
    const root = makeQueue("root", { "a cpu": 8, "b cpu": 0, "c cpu": 0 });
    const leaf = makeQueue("leaf", { "a cpu": 0, "b cpu": 8, "c cpu": 0 }, { parent: "root" });
    const run = worldOf(["a1", "b1", "c1"], root, leaf);
    for (const pool of ["a", "b", "c"]) ask(run, pool, [{ component: "c0", pool }]);
    ask(run, "x", cpuOf("c", "a", "b"), { queue: "leaf" });
    const { reports, more } = buildDemand(run.world, policy, run.nowMs, { pools: ["a", "b", "c"], limit: 10 });
    expect({ more, needs: reports.map(({ reservation }) => reservation.needs) }).toEqual({
      more: 0,
      needs: [cpuOf("b", "a")],
    });
  });

  it.each<[title: string, owned: Readonly<Record<string, number>>, work: readonly Work[], leaves: string]>([
    [
      "the second pool if the queue owns nothing in the first",
      { "a cpu": 0, "b cpu": 8 },
      [
        { id: "p", pool: "a", queue: "borrower" },
        { id: "q", pool: "b", queue: "borrower" },
      ],
      "q",
    ],
    [
      "the second pool if no quota limits the work in the first",
      { "a cpu": 8, "b cpu": 8 },
      [
        { id: "p", pool: "a" },
        { id: "q", pool: "b", queue: "borrower" },
      ],
      "q",
    ],
    [
      "the preferred pool if others borrow in both",
      { "a cpu": 8, "b cpu": 8 },
      [
        { id: "q", pool: "b", queue: "borrower" },
        { id: "p", pool: "a", queue: "borrower" },
      ],
      "p",
    ],
    [
      "the second pool before work of the own queue leaves the first",
      { "a cpu": 8, "b cpu": 8 },
      [
        { id: "p", pool: "a", queue: "owner", priority: -1 },
        { id: "q", pool: "b", queue: "borrower" },
      ],
      "q",
    ],
    [
      "the own queue in the second pool if no other work may leave",
      { "a cpu": 8, "b cpu": 8 },
      [
        { id: "p", pool: "a" },
        { id: "q", pool: "b", queue: "owner", priority: -1 },
      ],
      "q",
    ],
  ])("preempts work in %s", (_title, owned, work, leaves) => {
    const quotas = { "a cpu": 8, "b cpu": 8 };
    const policies = { parent: "root", reclaim: "Any", withinQueue: "LowerPriority" } as const;
    const owner = makeQueue("owner", owned, policies);
    const run = worldOf(["a1", "b1"], makeQueue("root", quotas), owner, makeQueue("borrower", {}, { parent: "root" }));
    const jobOf = (id: string) => makeOwner(id, "job");
    for (const { id, pool, ...more } of work) ask(run, id, cpuOf(pool), { owner: jobOf(id), ...more });
    ask(run, "x", cpuOf("a", "b"), { queue: "owner" });
    const { leaving, beneficiaries, reservations } = run.world.ledger;
    expect([...leaving.keys()].map((sequence) => reservations.get(sequence)?.owner)).toEqual([jobOf(leaves)]);
    expect(beneficiaries.map(({ sequence }) => reservations.get(sequence)?.owner)).toEqual([makeOwner("x")]);
    stepRun(run, { kind: "accept", owner: jobOf(leaves) });
    stepRun(run, { kind: "release", owner: jobOf(leaves) });
    expect(granted(run)["x"]).toBe(`${work.find(({ id }) => id === leaves)?.pool ?? ""}1`);
  });

  it.each<[title: string, needs: readonly Need[], fault: object]>([
    ["a pool that does not exist", anyOf("a", "z"), { code: "pool_unknown", pool: "z" }],
    ["the same pool twice", anyOf("a", "b", "a"), { code: "invalid_request", reason: '"a" is there twice' }],
    ["more pools than a need may accept", anyOf("a", ..."bcdefghi"), { code: "limit_exceeded", limit: 8 }],
    [
      "more choices than a reservation may have",
      ["ab", "ba", "ac", "ca", "bc"].map(([pool = "", other = ""], index) => {
        return { component: `c${index}`, pool, otherPools: [other] };
      }),
      { code: "limit_exceeded", limit: 16 },
    ],
    [
      "pools that are all too small",
      [...anyOf("a", "b"), { component: "c1", pool: "a", otherPools: ["b"] }],
      { code: "pool_capacity", pool: "a", requested: 2, capacity: 1 },
    ],
  ])("is refused with %s", (_title, needs, fault) => {
    const verdict = ask(worldOf(["a1", "b1"]), "x", needs);
    expect(verdict?.kind === "refuse" && verdict.fault).toMatchObject(fault);
  });
});
