import { withMinimum, type NodeSelection } from "@muster/resources";
import { describe, expect, it } from "vitest";
import {
  toAmounts,
  makeNode,
  makeOwner,
  policy,
  makeRequest,
  scaleTo,
  SIZE,
  startRun,
  stepRun,
  type LedgerRun,
} from "../../../test/random-world.ts";
import type { NodeFacts } from "../ledger/machines.ts";
import { findRoom, withNode } from "../ledger/machines.ts";
import { withoutHeldMinima } from "../ledger/held-minima.ts";
import { countByPool, type Need } from "../ledger/reservation.ts";
import { buildExplanation } from "./build-explanation.ts";
import type { Verdict } from "./decide-reservation.ts";

const ssd: NodeSelection = {
  terms: [{ matchExpressions: [{ key: "disk", operator: "In", values: ["ssd"] }] }],
  tolerations: [],
};
const zone: NodeSelection = {
  terms: [{ matchExpressions: [{ key: "zone", operator: "In", values: ["z"] }] }],
  tolerations: [],
};
const tolerant: NodeSelection = { terms: [], tolerations: [{ key: "gpu", operator: "Exists" }] };

const SSD = { labels: { disk: "ssd" } };
const TAINTED: Partial<NodeFacts> = { schedulable: false, taints: [{ key: "gpu", value: "", effect: "NoSchedule" }] };

/** Needs of pool `p`, named c0, c1, ...: with this selection, or none. */
function needs(...selections: readonly (NodeSelection | undefined)[]): readonly Need[] {
  return selections.map((selection, index) => ({ component: `c${index}`, pool: "p", ...(selection && { selection }) }));
}

function reserve(run: LedgerRun, id: number, wanted: readonly Need[]): Verdict | undefined {
  return stepRun(run, { kind: "reserve", request: makeRequest(id, [], { needs: wanted }) });
}

/** The nodes of a reservation, in the order of its needs; undefined: it waits. */
function nodesOf(run: LedgerRun, id: number): readonly string[] | undefined {
  const { owner } = makeRequest(id, []);
  return [...run.world.ledger.reservations.values()]
    .find((each) => each.owner.id === owner.id)
    ?.grant?.machines.map(({ node }) => node);
}

function runOf(...nodes: readonly (readonly [string, Partial<NodeFacts>])[]): LedgerRun {
  return startRun(nodes.map(([name, more]) => makeNode(name, "p", more)));
}

it("grants a need only nodes that its selection accepts, and leaves the others to needs that accept them", () => {
  const run = runOf(["a", {}], ["b", SSD], ["c", SSD]);
  reserve(run, 1, needs(ssd));
  expect(nodesOf(run, 1)).toEqual(["b"]);
  reserve(run, 2, needs(undefined, ssd));
  expect(nodesOf(run, 2)).toEqual(["a", "c"]);
  reserve(run, 3, needs(ssd));
  expect(nodesOf(run, 3)).toBeUndefined();
  stepRun(run, { kind: "release", owner: makeOwner(2) });
  expect(nodesOf(run, 3)).toEqual(["c"]);
});

it("grants tainted nodes to needs that tolerate the taint, unless they are cordoned", () => {
  const run = runOf(["a", TAINTED], ["b", { ...TAINTED, cordoned: true }]);
  reserve(run, 1, needs(undefined));
  expect(run.verdicts.at(-1)).toMatchObject({ kind: "refuse", fault: { code: "pool_capacity", capacity: 0 } });
  reserve(run, 2, needs(tolerant));
  expect(nodesOf(run, 2)).toEqual(["a"]);
  reserve(run, 3, needs(tolerant, tolerant));
  expect(run.verdicts.at(-1)).toMatchObject({ kind: "refuse", fault: { code: "pool_capacity", capacity: 1 } });
});

it("grants parts only on nodes that the selection accepts", () => {
  const run = runOf(["a", {}], ["b", SSD]);
  const part = { component: "c0", pool: "p", shared: toAmounts({ cpu: 5 }) };
  reserve(run, 1, [{ ...part, selection: ssd }]);
  expect(nodesOf(run, 1)).toEqual(["b"]);
  reserve(run, 2, [{ ...part, selection: ssd }]);
  expect(nodesOf(run, 2)).toBeUndefined();
  reserve(run, 3, [part]);
  expect(nodesOf(run, 3)).toEqual(["a"]);
});

it("leaves the nodes that two needs accept to the one that accepts fewer", () => {
  const both = { labels: { disk: "ssd", zone: "z" } };
  const run = runOf(["a", both], ["b", { labels: { zone: "z" } }], ["c", SSD], ["d", SSD]);
  reserve(run, 1, needs(zone, zone, ssd, ssd));
  expect(nodesOf(run, 1)).toEqual(["b", "a", "c", "d"]);
});

it("grants a need first the nodes that no other need of the gang accepts", () => {
  const both = { labels: { disk: "ssd", zone: "z" } };
  const run = runOf(["a", both], ["b", { labels: { zone: "z" } }], ["c", SSD], ["d", SSD]);
  reserve(run, 1, needs(zone, ssd, ssd, ssd));
  expect(nodesOf(run, 1)).toEqual(["b", "a", "c", "d"]);
});

it("refuses needs of one pool that fit one by one but never together", () => {
  const run = runOf(["a", SSD], ["b", {}]);
  expect(reserve(run, 1, needs(ssd, undefined, undefined))).toMatchObject({
    kind: "refuse",
    fault: { code: "pool_capacity", pool: "p", requested: 3, capacity: 2 },
  });
});

it("keeps the nodes that an older request accepts, and no others", () => {
  const run = runOf(["a", {}], ["b", {}], ["c", SSD], ["d", SSD]);
  reserve(run, 1, needs(ssd));
  reserve(run, 2, needs(ssd, ssd));
  stepRun(run, { kind: "wait", ms: policy.holdAfterMs + 1 });
  reserve(run, 3, needs(undefined, undefined));
  expect(nodesOf(run, 3)).toEqual(["a", "b"]);
  reserve(run, 4, needs(undefined));
  expect(nodesOf(run, 4)).toBeUndefined();
  stepRun(run, { kind: "release", owner: makeOwner(1) });
  expect(nodesOf(run, 2)).toEqual(["c", "d"]);
});

it("keeps no machines for a request that no present node can satisfy, so the next one waits for nothing", () => {
  const run = runOf(["a", {}], ["b", {}], ["c", {}]);
  stepRun(run, { kind: "scale", pool: "p", scaling: { pool: "p", max: 9, exhausted: false } });
  reserve(run, 1, needs(ssd));
  reserve(run, 2, needs(undefined));
  reserve(run, 3, needs(undefined, undefined, undefined));
  stepRun(run, { kind: "wait", ms: policy.holdAfterMs + 1 });
  reserve(run, 4, needs(undefined));
  expect([1, 2, 3, 4].map((id) => nodesOf(run, id)?.length)).toEqual([undefined, 1, undefined, undefined]);
});

it("never refuses needs because a heuristic cannot place them together", () => {
  const [x, y, z] = ["x", "y", "z"].map((key): NodeSelection => ({
    terms: [{ matchExpressions: [{ key, operator: "Exists" }] }],
    tolerations: [],
  }));
  const has = (...keys: readonly string[]): Partial<NodeFacts> => ({
    labels: Object.fromEntries(keys.map((key) => [key, ""])),
  });
  const run = runOf(
    ["1", has("x", "y")],
    ["2", has("x", "z")],
    ["5", has("y")],
    ["6", has("y")],
    ["7", has("z")],
    ["8", has("z")],
  );
  expect(reserve(run, 1, needs(x, y, y, y, z))?.kind).not.toBe("refuse");
});

it("waits in a pool that may grow, since the labels of new nodes may match", () => {
  const run = runOf(["a", {}]);
  stepRun(run, { kind: "scale", pool: "p", scaling: { pool: "p", max: 3, exhausted: false } });
  expect(reserve(run, 1, needs(ssd, ssd))).toMatchObject({ kind: "queue" });
  stepRun(run, { kind: "node", facts: makeNode("b", "p", SSD) });
  stepRun(run, { kind: "node", facts: makeNode("c", "p", SSD) });
  expect(nodesOf(run, 1)).toEqual(["b", "c"]);
});

it("follows a node whose labels, taints or holder change", () => {
  const { world } = runOf(["a", {}], ["b", SSD]);
  const need = { pool: "p", selection: ssd };
  expect(findRoom(world.machines, need)?.free.size).toBe(1);
  const labelled = withNode(world.machines, makeNode("a", "p", SSD));
  expect(findRoom(labelled, need)?.free.size).toBe(2);
  const tainted = withNode(labelled, makeNode("a", "p", { ...SSD, ...TAINTED }));
  expect(findRoom(tainted, need)?.free.size).toBe(1);
  expect(findRoom(tainted, { pool: "p", selection: { ...ssd, tolerations: tolerant.tolerations } })?.free.size).toBe(2);
  expect(findRoom(withNode(tainted, makeNode("b", "q", SSD)), need)?.free.size).toBe(0);
  expect(findRoom(world.machines, need)?.free.size).toBe(1);
});

it("names the nodes that count", () => {
  const run = runOf(["a", {}], ["b", SSD]);
  reserve(run, 1, needs(ssd));
  reserve(run, 2, needs(ssd));
  const waiting = [...run.world.ledger.reservations.values()].find(({ grant }) => grant === undefined);
  if (waiting === undefined) throw new Error("nothing waits");
  const explained = buildExplanation(waiting, run.world, policy, run.nowMs);
  expect(explained.because).toMatchObject({ code: "POOL_AVAILABILITY", requested: 1, available: 0, nodes: "disk=ssd" });
  expect(explained.message).toContain(
    "pool p has 0 machines free for it on the nodes that it accepts (disk=ssd), 1 is needed",
  );
});

it("reports the free amounts of the nodes that a need of parts accepts, and which of them cannot be granted", () => {
  const run = runOf(["a", {}], ["b", { ...SSD, ...TAINTED }], ["c", { ...SSD, ready: false }], ["d", { ready: false }]);
  const selection = { ...ssd, tolerations: tolerant.tolerations };
  const part = { component: "c0", pool: "p", selection, shared: toAmounts({ cpu: 5 }) };
  reserve(run, 1, [part]);
  reserve(run, 2, [part]);
  const waiting = [...run.world.ledger.reservations.values()].find(({ grant }) => grant === undefined);
  if (waiting === undefined) throw new Error("nothing waits");
  const { pools, message } = buildExplanation(waiting, run.world, policy, run.nowMs);
  expect(pools[0]?.amounts).toMatchObject({ allocatable: SIZE, free: toAmounts({ cpu: 3, memory: 16, pods: 4 }) });
  expect(pools[0]?.unusable.listed).toMatchObject([{ node: "c", reason: "NOT_READY" }]);
  expect(message).toContain("b has 3m free, the nodes that it accepts have 3m of 8m free");
});

describe("a need with a minimum", () => {
  const atLeast = (minimum: Readonly<Record<string, number>>, selection?: NodeSelection) =>
    withMinimum(selection, minimum);
  const sized = (cpu: number) => ({ allocatable: toAmounts({ cpu, memory: 16, pods: 5 }) });
  const state = (run: LedgerRun) => run.world.machines.pools.get("p");

  it("gets only machines of that size, and leaves the others to others", () => {
    const run = runOf(["small", sized(2)], ["large", sized(8)], ["unknown", { allocatable: undefined }]);
    reserve(run, 1, needs(atLeast({ cpu: 4 })));
    expect(nodesOf(run, 1)).toEqual(["large"]);
    reserve(run, 2, needs(atLeast({ cpu: 4 })));
    expect(nodesOf(run, 2)).toBeUndefined();
    reserve(run, 3, needs(undefined, atLeast({ cpu: 2 })));
    expect(nodesOf(run, 3)).toEqual(["unknown", "small"]);
    stepRun(run, { kind: "release", owner: makeOwner(1) });
    expect(nodesOf(run, 2)).toEqual(["large"]);
  });

  it("is refused with the resources that every machine lacks", () => {
    const run = runOf(["a", sized(2)], ["b", sized(4)]);
    reserve(run, 1, needs(atLeast({ cpu: 8, memory: 4, "example.com/gpu": 1 })));
    const short = [
      { resource: "cpu", requested: 8, largest: 4 },
      { resource: "example.com/gpu", requested: 1, largest: 0 },
    ];
    expect(run.verdicts.at(-1)).toEqual({
      kind: "refuse",
      fault: { code: "pool_capacity", pool: "p", requested: 1, capacity: 0, short },
    });
    reserve(run, 2, needs(atLeast({ cpu: 4 }), atLeast({ cpu: 4 })));
    expect(run.verdicts.at(-1)).toEqual({
      kind: "refuse",
      fault: { code: "pool_capacity", pool: "p", requested: 2, capacity: 1 },
    });
    reserve(run, 3, needs(atLeast({ cpu: 4 }), atLeast({ cpu: 3 })));
    expect(run.verdicts.at(-1)).toMatchObject({ kind: "refuse", fault: { code: "pool_capacity", capacity: 1 } });
  });

  it("is not refused permanently while the size of a node is unknown", () => {
    const run = runOf(["a", { allocatable: undefined }]);
    reserve(run, 1, needs(atLeast({ cpu: 4 })));
    expect(run.verdicts.at(-1)).toMatchObject({ kind: "refuse", fault: { code: "unavailable" } });
    stepRun(run, { kind: "node", facts: makeNode("a", "p", sized(4)) });
    reserve(run, 2, needs(atLeast({ cpu: 4 })));
    expect(nodesOf(run, 2)).toEqual(["a"]);
  });

  it("waits for a pool that may grow, and gets no new node that is too small", () => {
    const run = startRun();
    stepRun(run, scaleTo("p", 2));
    reserve(run, 1, needs(atLeast({ cpu: 4 })));
    stepRun(run, { kind: "node", facts: makeNode("a", "p", sized(2)) });
    expect(nodesOf(run, 1)).toBeUndefined();
    const [waiting] = run.world.ledger.reservations.values();
    if (waiting === undefined) throw new Error("nothing waits");
    expect(buildExplanation(waiting, run.world, policy, 0)).toMatchObject({
      message: "pool p has 0 of 1 machine on the nodes that it accepts (holds cpu 4m); it may grow to 2",
      pools: [{ nodes: "holds cpu 4m", unusable: { listed: [] } }],
    });
    stepRun(run, { kind: "node", facts: makeNode("b", "p", sized(4)) });
    expect(nodesOf(run, 1)).toEqual(["b"]);
  });

  it("has no view and no explanation of its own while each node that it otherwise accepts has the minimum size", () => {
    const run = runOf(["a", sized(4)], ["b", sized(8)], ["c", { ...sized(1), ...TAINTED }]);
    const pool = state(run);
    if (pool === undefined) throw new Error("the pool is missing");
    const gang = countByPool(needs(atLeast({ cpu: 3 }), atLeast({ cpu: 4 }), undefined));
    expect(withoutHeldMinima(gang, run.world.machines)).toEqual([{ pool: "p", count: 3, shared: [] }]);
    expect(withoutHeldMinima(gang, run.world.machines)).toBe(withoutHeldMinima(gang, run.world.machines));
    const partly = countByPool(needs(atLeast({ cpu: 3 }), atLeast({ cpu: 5 }), atLeast({ cpu: 3 }, tolerant)));
    expect(withoutHeldMinima(partly, run.world.machines)).toMatchObject([
      { count: 1, shared: [] },
      { count: 1, selection: { minimum: { cpu: 3 } } },
      { count: 1, selection: { minimum: { cpu: 5 } } },
    ]);
    reserve(run, 1, needs(atLeast({ cpu: 4 }), atLeast({ cpu: 1 })));
    expect(nodesOf(run, 1)).toEqual(["a", "b"]);
    reserve(run, 2, needs(atLeast({ cpu: 4 })));
    const waiting = [...run.world.ledger.reservations.values()].at(-1);
    if (waiting === undefined) throw new Error("nothing waits");
    expect(buildExplanation(waiting, run.world, policy, 0).message).toBe(
      "pool p has 0 machines free for it, 1 is needed (of 2); held by session o1 (2); 1 node cannot be granted",
    );
  });
});

it("names the cordons and taints that make a pool too small", () => {
  const run = runOf(["a", { schedulable: false, cordoned: true }], ["b", TAINTED], ["c", { ...SSD, ...TAINTED }]);
  reserve(run, 1, needs(undefined));
  const refused = { code: "pool_capacity", pool: "p", requested: 1, capacity: 0 };
  expect(run.verdicts.at(-1)).toEqual({
    kind: "refuse",
    fault: { ...refused, cordoned: ["a"], taints: ["gpu:NoSchedule"] },
  });
  reserve(run, 2, needs({ ...ssd, tolerations: [{ key: "other" }] }, { ...ssd, tolerations: [{ key: "other" }] }));
  expect(run.verdicts.at(-1)).toMatchObject({ fault: { ...refused, requested: 2, taints: ["gpu:NoSchedule"] } });
  expect(run.verdicts.at(-1)).not.toHaveProperty("fault.cordoned");
});

it("reports to a waiting request that its pool has become too small, until its nodes are back", () => {
  const run = runOf(["a", {}], ["b", {}]);
  reserve(run, 1, needs(undefined));
  reserve(run, 2, needs(undefined, undefined));
  const explain = () => {
    const waiting = [...run.world.ledger.reservations.values()].at(-1);
    if (waiting === undefined) throw new Error("nothing waits");
    return buildExplanation(waiting, run.world, policy, 0);
  };
  expect(explain().because?.code).toBe("POOL_AVAILABILITY");
  stepRun(run, { kind: "node", facts: makeNode("b", "p", TAINTED) });
  expect(explain()).toMatchObject({
    because: { code: "POOL_TOO_SMALL", pool: "p", requested: 2, available: 0 },
    message:
      "pool p is too small now for 2 machines, and it waits for nodes to come back; " +
      "it has 1 usable machine now; 1 node cannot be granted",
    pools: [{ unusable: { listed: [{ node: "b", reason: "CORDONED", cordoned: false, taints: TAINTED.taints }] } }],
  });
  stepRun(run, { kind: "lose", node: "a" });
  stepRun(run, { kind: "lose", node: "b" });
  expect(explain().because?.code).toBe("POOL_TOO_SMALL");
  stepRun(run, { kind: "node", facts: makeNode("a", "p") });
  stepRun(run, { kind: "node", facts: makeNode("b", "p") });
  expect(explain().because?.code).toBe("POOL_AVAILABILITY");
});
