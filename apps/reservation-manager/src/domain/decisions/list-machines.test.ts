import fc from "fast-check";
import { expect, it } from "vitest";
import {
  firstNodes,
  makeNode,
  operations,
  makeOwner,
  makeRequest,
  SIZE,
  startRun,
  stepRun,
  type LedgerRun,
} from "../../../test/random-world.ts";
import { buildMachinePage, type MachineState } from "./list-machines.ts";
import { withCompleteness } from "../ledger/machines.ts";

function all(run: LedgerRun, pool: string | undefined, limit: number): readonly MachineState[] {
  const seen: MachineState[] = [];
  let after: string | undefined;
  do {
    const page = buildMachinePage(run.world, { pool, after, limit });
    expect(page.machines.length).toBeLessThanOrEqual(limit);
    seen.push(...page.machines);
    after = page.next;
  } while (after !== undefined);
  return seen;
}

function show(states: readonly MachineState[]): readonly string[] {
  return states.map(({ node, pool, standing, holder }) => `${node} ${pool} ${standing} ${holder?.owner.id ?? "-"}`);
}

it("states the standing and the holder of each node, in whatever state it is", () => {
  const run = startRun([1, 2, 3, 4].map((number) => makeNode(`a${number}`, "a")));
  stepRun(run, { kind: "reserve", request: makeRequest("x", ["a", "a", "a", "a"]) });
  stepRun(run, { kind: "node", facts: makeNode("a2", "a", { ready: false }) });
  stepRun(run, { kind: "node", facts: makeNode("a3", "a", { schedulable: false }) });
  stepRun(run, { kind: "lose", node: "a4" });
  stepRun(run, { kind: "node", facts: makeNode("a5", "a") });
  stepRun(run, { kind: "node", facts: makeNode("a6", "a", { occupants: [makeOwner("y")] }) });
  stepRun(run, { kind: "node", facts: makeNode("a7", "a", { ready: false }) });
  stepRun(run, { kind: "node", facts: { ...makeNode("a8", "a"), pool: undefined } });
  stepRun(run, { kind: "node", facts: makeNode("b1", "b", { schedulable: false }) });
  const ofA = [
    "a1 a held ox",
    "a2 a notReady ox",
    "a3 a cordoned ox",
    "a4 a lost ox",
    "a5 a free -",
    "a6 a occupied -",
    "a7 a notReady -",
  ];
  expect(show(all(run, "a", 3))).toEqual(ofA);
  expect(show(all(run, undefined, 100))).toEqual([...ofA, "b1 b cordoned -"]);
  stepRun(run, { kind: "release", owner: makeOwner("x") });
  expect(show(all(run, "a", 100))).not.toContain("a4 a lost ox");
});

it("distinguishes a cordon from a taint, also of a node that is not ready", () => {
  const run = startRun();
  stepRun(run, { kind: "node", facts: makeNode("a1", "a", { schedulable: false }) });
  stepRun(run, { kind: "node", facts: makeNode("a2", "a", { schedulable: false, cordoned: true }) });
  stepRun(run, { kind: "node", facts: makeNode("a3", "a", { ready: false, schedulable: false, cordoned: true }) });
  const cordoned = all(run, "a", 100).flatMap((state) => (state.cordoned ? state.node : []));
  expect(cordoned).toEqual(["a2", "a3"]);
  stepRun(run, { kind: "node", facts: makeNode("a1", "a", { schedulable: false, cordoned: true }) });
  expect(all(run, "a", 1)[0]?.cordoned).toBe(true);
});

it("states the standing of a tainted node for needs that tolerate its taints, and their free part of it", () => {
  const tainted = { schedulable: false, taints: [{ key: "gpu", effect: "NoSchedule" }] };
  const run = startRun([
    makeNode("a1", "a", tainted),
    makeNode("a2", "a", { ...tainted, cordoned: true }),
    makeNode("a3", "a", { ...tainted, taints: [] }),
    makeNode("a4", "a"),
  ]);
  const seen = all(run, "a", 100).map((each) => [each.standing, each.toleratedStanding, each.free, each.taints.length]);
  expect(seen).toEqual([
    ["cordoned", "free", SIZE, 1],
    ["cordoned", "cordoned", undefined, 1],
    ["cordoned", "cordoned", undefined, 0],
    ["free", "free", SIZE, 0],
  ]);
});

it("keeps a held node that has lost its label in the pool that it was granted for", () => {
  const run = startRun([makeNode("a1", "a")]);
  stepRun(run, { kind: "reserve", request: makeRequest("x", ["a"]) });
  stepRun(run, { kind: "node", facts: { ...makeNode("a1", "a"), pool: undefined } });
  expect(show(all(run, "a", 100))).toEqual(["a1 a held ox"]);
});

it("reports whether every node is known", () => {
  const { world } = startRun();
  const request = { pool: undefined, after: undefined, limit: 1 };
  expect(buildMachinePage(world, request)).toEqual({ machines: [], next: undefined, complete: true });
  const unknown = { ...world, machines: withCompleteness(world.machines, false) };
  expect(buildMachinePage(unknown, request).complete).toBe(false);
});

it("lists every node of the pool and every held one once, in the order of names, for every page size", () => {
  fc.assert(
    fc.property(
      operations,
      fc.constantFrom(undefined, "a", "b"),
      fc.integer({ min: 1, max: 5 }),
      (steps, pool, limit) => {
        const run = startRun(firstNodes);
        for (const operation of steps) stepRun(run, operation);
        const granted = [...run.world.ledger.reservations.values()].flatMap(({ grant }) => grant?.machines ?? []);
        const pools = new Map([
          ...granted.map((machine): [string, string] => [machine.node, machine.pool]),
          ...[...run.nodes.values()].flatMap((node): [string, string][] =>
            node.pool === undefined ? [] : [[node.name, node.pool]],
          ),
        ]);
        const wanted = [...pools].filter(([, one]) => pool === undefined || one === pool).map(([node]) => node);
        const seen = all(run, pool, limit);
        expect(seen.map(({ node }) => node)).toEqual(wanted.sort());
        for (const { node, standing, holder } of seen) {
          expect(standing === "lost").toBe(!run.nodes.has(node));
          expect(holder?.sequence).toBe(run.world.ledger.holders.get(node));
        }
      },
    ),
  );
});
