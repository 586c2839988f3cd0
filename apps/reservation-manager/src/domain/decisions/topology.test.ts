import type { NodeSelection } from "@muster/resources";
import fc from "fast-check";
import { expect, it } from "vitest";
import {
  toAmounts,
  firstNodes,
  makeNode,
  operations,
  makeOwner,
  makeParts,
  policy,
  makeRequest,
  startRun,
  stepRun,
  type Operation,
  type LedgerRun,
} from "../../../test/random-world.ts";
import { getDomains, withNode, type NodeFacts } from "../ledger/machines.ts";
import type { Need } from "../ledger/reservation.ts";
import { buildExplanation } from "./build-explanation.ts";
import type { Verdict } from "./decide-reservation.ts";

const topology = "zone";
const tolerant: NodeSelection = { terms: [], tolerations: [{ key: "gpu", operator: "Exists" }] };

function inZone(zone: string, more: Partial<NodeFacts> = {}): Partial<NodeFacts> {
  return { labels: { zone }, ...more };
}

function machinesOf(...pools: readonly string[]): readonly Need[] {
  return pools.map((pool, index) => ({ component: `c${index}`, pool }));
}

function reserve(run: LedgerRun, id: number, needs: readonly Need[], of = topology): Verdict | undefined {
  return stepRun(run, { kind: "reserve", request: makeRequest(id, [], { needs, ...(of !== "" && { topology: of }) }) });
}

function reservationOf(run: LedgerRun, id: number) {
  const { owner } = makeRequest(id, []);
  return [...run.world.ledger.reservations.values()].find((each) => each.owner.id === owner.id);
}

/** Returns the nodes of a reservation in the order of its needs; undefined: the reservation waits. */
function nodesOf(run: LedgerRun, id: number): readonly string[] | undefined {
  return reservationOf(run, id)?.grant?.machines.map(({ node }) => node);
}

function explain(run: LedgerRun, id: number) {
  const reservation = reservationOf(run, id);
  if (reservation === undefined) throw new Error(`${id} has no reservation`);
  return buildExplanation(reservation, run.world, policy, run.nowMs);
}

/** Nodes of pool `p`. */
function runOf(...nodes: readonly (readonly [string, Partial<NodeFacts>])[]): LedgerRun {
  return startRun(nodes.map(([name, more]) => makeNode(name, "p", more)));
}

it("grants all of a gang in the domain with the fewest free machines that has room, and names it", () => {
  const run = runOf(["a", inZone("1")], ["b", inZone("2")], ["c", inZone("2")], ["d", inZone("2")], ["e", {}]);
  reserve(run, 1, machinesOf("p", "p"));
  expect(reservationOf(run, 1)?.grant).toMatchObject({ domain: "2", machines: [{ node: "b" }, { node: "c" }] });
  reserve(run, 2, machinesOf("p"));
  expect(reservationOf(run, 2)?.grant).toMatchObject({ domain: "1", machines: [{ node: "a" }] });
  reserve(run, 3, machinesOf("p"), "");
  expect(reservationOf(run, 3)?.grant).toEqual({ atMs: 0, machines: [expect.objectContaining({ node: "d" })] });
});

it("waits while enough is free but not in one domain, and names the one with the most", () => {
  const run = runOf(["a", inZone("1")], ["b", inZone("1")], ["c", inZone("2")], ["d", inZone("2")]);
  reserve(run, 1, machinesOf("p"));
  reserve(run, 2, machinesOf("p"), "");
  expect([nodesOf(run, 1), nodesOf(run, 2)]).toEqual([["a"], ["b"]]);
  stepRun(run, { kind: "release", owner: makeOwner(1) });
  reserve(run, 3, machinesOf("p"), "");
  stepRun(run, { kind: "node", facts: makeNode("x", "p", {}) });
  expect(nodesOf(run, 3)).toEqual(["a"]);
  stepRun(run, { kind: "lose", node: "d" });
  reserve(run, 4, machinesOf("p", "p"));
  expect(explain(run, 4).because).toMatchObject({
    code: "WAITING_FOR_TOPOLOGY",
    pool: "p",
    requested: 2,
    available: 1,
    topology: { key: "zone", value: "2" },
  });
  expect(explain(run, 4).message).toContain(
    "nodes with one value of the label zone are needed for 2 machines, and most fit with 2: 1; held by session o2 (1), session o3 (1)",
  );
  stepRun(run, { kind: "release", owner: makeOwner(2) });
  stepRun(run, { kind: "release", owner: makeOwner(3) });
  expect(nodesOf(run, 4)).toEqual(["a", "b"]);
});

it("grants needs of several pools in one domain", () => {
  const run = startRun([
    makeNode("a", "p", inZone("1")),
    makeNode("b", "p", inZone("2")),
    makeNode("c", "q", inZone("2")),
    makeNode("d", "q", inZone("3")),
  ]);
  reserve(run, 1, machinesOf("p", "q"));
  expect(nodesOf(run, 1)).toEqual(["b", "c"]);
});

it("places parts and machines of tolerated nodes in one domain", () => {
  const tainted = { schedulable: false, taints: [{ key: "gpu", value: "", effect: "NoSchedule" }] };
  const run = runOf(["a", inZone("1")], ["b", inZone("1", tainted)], ["c", inZone("2", tainted)], ["d", inZone("3")]);
  const [part, other] = makeParts("p", { cpu: 5 }, { cpu: 5 });
  reserve(run, 1, [...(part ? [part] : []), ...(other ? [{ ...other, selection: tolerant }] : [])]);
  expect(nodesOf(run, 1)).toEqual(["a", "b"]);
});

it("refuses a gang for which no domain is large enough, with the largest one", () => {
  const run = runOf(["a", inZone("1")], ["b", inZone("2")], ["c", inZone("2")], ["d", {}]);
  const fault = { code: "pool_capacity", pool: "p", requested: 3, capacity: 2, topology };
  expect(reserve(run, 1, machinesOf("p", "p", "p"))).toEqual({ kind: "refuse", fault });
  expect(reserve(run, 1, machinesOf("p"), "rack")).toMatchObject({ kind: "refuse", fault: { capacity: 0 } });
});

it("grants in a domain of known sizes although another domain has unknown ones", () => {
  const run = runOf(["a", inZone("1", { allocatable: undefined })], ["b", inZone("2")], ["c", inZone("2")]);
  expect(reserve(run, 1, makeParts("p", { cpu: 5 }, { cpu: 5 }))).toMatchObject({ kind: "grant" });
  expect(nodesOf(run, 1)).toEqual(["b", "c"]);
});

it("has no domain for nodes whose label has no value", () => {
  const run = runOf(["a", inZone("")], ["b", inZone("")], ["c", inZone("1")]);
  expect(reserve(run, 1, machinesOf("p", "p"))).toMatchObject({ fault: { code: "pool_capacity", capacity: 1 } });
  reserve(run, 2, machinesOf("p"));
  expect(reservationOf(run, 2)?.grant).toMatchObject({ domain: "1" });
});

it("refuses nothing on unknown facts: nodes of a scaled pool, and sizes of nodes", () => {
  const run = runOf(["a", inZone("1", { allocatable: undefined })], ["b", inZone("2")]);
  expect(reserve(run, 1, makeParts("p", { cpu: 5 }, { cpu: 5 }))).toMatchObject({ fault: { code: "unavailable" } });
  stepRun(run, { kind: "scale", pool: "p", scaling: { pool: "p", max: 5, exhausted: false } });
  expect(reserve(run, 2, machinesOf("p", "p", "p"))).toMatchObject({ kind: "queue" });
  for (const name of ["c", "d"]) stepRun(run, { kind: "node", facts: makeNode(name, "p", inZone("2")) });
  expect(nodesOf(run, 2)).toEqual(["b", "c", "d"]);
});

it("keeps the machines of one domain for an overdue gang, and leaves the others to younger requests", () => {
  const run = runOf(["a", inZone("1")], ["b", inZone("1")], ["c", inZone("2")], ["d", inZone("2")], ["e", inZone("2")]);
  reserve(run, 1, machinesOf("p", "p"), "");
  expect(nodesOf(run, 1)).toEqual(["a", "b"]);
  reserve(run, 2, machinesOf("p"), "");
  expect(nodesOf(run, 2)).toEqual(["c"]);
  reserve(run, 3, machinesOf("p", "p", "p"));
  stepRun(run, { kind: "wait", ms: policy.holdAfterMs + 1 });
  reserve(run, 4, machinesOf("p"));
  expect(explain(run, 4).because).toMatchObject({ code: "HELD_FOR_OLDER", pool: "p" });
  stepRun(run, { kind: "release", owner: makeOwner(1) });
  expect(nodesOf(run, 4)).toEqual(["a"]);
  stepRun(run, { kind: "release", owner: makeOwner(2) });
  expect(nodesOf(run, 3)).toEqual(["c", "d", "e"]);
});

it("regards a request with another topology as another request", () => {
  const run = runOf(["a", inZone("1")]);
  reserve(run, 1, machinesOf("p"));
  expect(reserve(run, 1, machinesOf("p"))).toMatchObject({ kind: "answer" });
  expect(reserve(run, 1, machinesOf("p"), "rack")).toMatchObject({ fault: { code: "reservation_differs" } });
  expect(reserve(run, 2, machinesOf("p"), "no label")).toMatchObject({
    fault: { code: "invalid_request", field: "topology" },
  });
});

it("knows the size of the only node of a domain while it is granted", () => {
  const run = runOf(["a", inZone("1")]);
  reserve(run, 1, machinesOf("p"));
  expect(reserve(run, 2, makeParts("p", { cpu: 1 }))).toMatchObject({ kind: "queue" });
  stepRun(run, { kind: "release", owner: makeOwner(1) });
  expect(nodesOf(run, 2)).toEqual(["a"]);
});

it("follows a node that changes its domain", () => {
  const { world } = runOf(["a", inZone("1")], ["b", inZone("2")]);
  const free = (machines: typeof world.machines) =>
    [...getDomains(machines, { pool: "p" }, topology).entries()].map(([value, state]) => [value, state.free.size]);
  expect(free(world.machines)).toEqual([
    ["1", 1],
    ["2", 1],
  ]);
  const moved = withNode(world.machines, makeNode("a", "p", inZone("2")));
  expect(free(moved)).toEqual([["2", 2]]);
  expect(free(withNode(moved, makeNode("a", "p", {})))).toEqual([["2", 1]]);
});

it("grants all machines of a gang in one domain, after any operations", () => {
  let grants = 0;
  fc.assert(
    fc.property(operations, (steps) => {
      const run = startRun(firstNodes.map((facts, index) => ({ ...facts, labels: { zone: String(index % 3) } })));
      for (const operation of steps) {
        const before = run.events.length;
        stepRun(run, operation.kind === "reserve" ? withTopology(operation) : operation);
        for (const event of run.events.slice(before)) {
          if (event.kind !== "granted" || event.domain === undefined) continue;
          const key = run.world.ledger.reservations.get(event.sequence)?.topology ?? "";
          const values = event.machines.map(({ node }) => run.nodes.get(node)?.labels[key]);
          expect(new Set(values)).toEqual(new Set([event.domain]));
          if (event.machines.length > 1) grants += 1;
        }
      }
    }),
  );
  expect(grants).toBeGreaterThan(20);
});

function withTopology(operation: Extract<Operation, { kind: "reserve" }>): Operation {
  const needs = operation.request.needs.map((need) => ({ ...need, pool: "b" }));
  return { kind: "reserve", request: { ...operation.request, needs, topology } };
}

it("has one size of part in each domain", () => {
  const run = runOf(["a", inZone("1", { allocatable: toAmounts({ cpu: 8, pods: 5 }) })], ["b", inZone("2")]);
  expect(reserve(run, 1, makeParts("p", { cpu: 5 }, { cpu: 5 }))).toMatchObject({
    kind: "refuse",
    fault: { code: "pool_capacity", requested: 2, capacity: 1, topology },
  });
  reserve(run, 2, makeParts("p", { cpu: 4 }, { cpu: 4 }));
  expect(nodesOf(run, 2)).toEqual(["a", "a"]);
});
