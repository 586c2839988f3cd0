import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { aRoll, aSet, aSpec, placedOn, POLICY } from "./a-set.ts";
import { planPods } from "./plan-pods.ts";
import { findContest } from "./find-overlap.ts";
import { planRoll, type RolledSet, type RollSnapshot } from "./plan-roll.ts";
import { planSet } from "./plan-set.ts";
import { podNameOf, type ReplicaSet } from "./replica-set.ts";
import type { Roll } from "./roll.ts";
import type { SetPod, SetSnapshot } from "./set-snapshot.ts";

const well = (set: ReplicaSet): RolledSet => ({ set, healthy: set.placements.length });
const oldSet = placedOn(["a", "b", "c"], { roll: "web-2" });
const newSet = (nodes: readonly string[], set: Partial<ReplicaSet> = {}): ReplicaSet =>
  placedOn(nodes, { name: "web-2", roll: "web-2", ...set });

function aLook(roll: Partial<Roll>, sets: Partial<RollSnapshot> = {}): RollSnapshot {
  return {
    nowMs: 1_000_000,
    roll: aRoll(roll),
    old: well(oldSet),
    fresh: well(newSet([])),
    blind: false,
    ...sets,
  };
}

describe("an update that is being created", () => {
  const unmarked = (set: ReplicaSet): RolledSet => well({ ...set, roll: undefined });

  it("marks one set after the other, and then begins with the numbers that both have", () => {
    const first = planRoll(aLook({ phase: "CREATING" }, { old: unmarked(oldSet), fresh: unmarked(newSet([])) }));
    expect(first).toMatchObject({ do: "write-set", next: { name: "web", roll: "web-2" } });
    const second = planRoll(aLook({ phase: "CREATING" }, { fresh: unmarked(newSet([])) }));
    expect(second).toMatchObject({ do: "write-set", next: { name: "web-2", roll: "web-2" } });
    expect(planRoll(aLook({ phase: "CREATING", oldDesired: 9, newDesired: 9 }))).toMatchObject({
      do: "write",
      next: { phase: "RUNNING", oldDesired: 3, newDesired: 0 },
      audits: [{ eventType: "ROLLING_UPDATE_CREATION" }],
    });
  });

  it("is given up when a set was scaled meanwhile so that the minimum could never be kept", () => {
    const small = { ...oldSet, spec: { ...oldSet.spec, replicasDesired: 1 } };
    const look = { phase: "CREATING", target: 2, minimum: 2 } as const;
    const given = planRoll(aLook(look, { old: well(small), fresh: unmarked(newSet([])) }));
    expect(given).toMatchObject({
      do: "write-set",
      next: { name: "web", roll: undefined, spec: { replicasDesired: 1 } },
      audits: [{ eventType: "ROLLING_UPDATE_COMPLETION", details: { succeeded: false, canceled: true } }],
    });
    const both = { old: unmarked(small), fresh: unmarked(newSet([])) };
    expect(planRoll(aLook(look, both))).toEqual({ do: "end", because: "minimum-too-high" });
  });

  it("gives way to an update that has one of its sets", () => {
    const others = well({ ...newSet([]), roll: "web-9" });
    const given = planRoll(aLook({ phase: "CREATING" }, { fresh: others }));
    expect(given).toMatchObject({ do: "write-set", next: { name: "web", roll: undefined } });
    expect(planRoll(aLook({ phase: "CREATING" }, { old: unmarked(oldSet), fresh: others }))).toEqual({
      do: "end",
      because: "set-in-another-update",
    });
  });
});

describe("an update that runs", () => {
  it.each<[string, Partial<Roll>, Partial<RollSnapshot>, unknown]>([
    ["moves as many as health allows", { newDesired: 0 }, {}, { next: { oldDesired: 2, newDesired: 1 } }],
    [
      "waits for health",
      { oldDesired: 2 },
      { fresh: { set: newSet(["d"]), healthy: 0 } },
      { because: "minimum-healthy" },
    ],
    ["waits between steps", { delayMs: 1000, lastStepAtMs: 999_500 }, {}, { because: "delay" }],
    ["does not wait before the first replica", { newDesired: 0, delayMs: 9e9 }, {}, { because: "next-step" }],
    ["stands still when it is paused", { phase: "PAUSED" }, {}, { because: "paused" }],
    ["does nothing while nobody's health is known", {}, { blind: true }, { because: "blind" }],
    [
      "waits until all new replicas have their places",
      { newDesired: 3, oldDesired: 0 },
      { fresh: well(newSet(["d"])) },
      { because: "places-missing" },
    ],
    [
      "is done with a version that is known to be bad, as the minimum says",
      { newDesired: 3, oldDesired: 0, minimum: 0 },
      { fresh: { set: newSet(["d", "e", "f"]), healthy: 0 } },
      { next: { phase: "FINISHING" } },
    ],
    [
      "takes what is left of a larger old set",
      { target: 1, newDesired: 1, oldDesired: 3, minimum: 2 },
      { fresh: well(newSet(["d"])) },
      { next: { oldDesired: 1 } },
    ],
    [
      "leaves a canary beside the old set",
      { target: 1, newDesired: 1, oldDesired: 3, leaveOld: true },
      { fresh: well(newSet(["d"])) },
      { next: { phase: "FINISHING", oldDesired: 3 } },
    ],
  ])("%s", (_case, roll, sets, step) => {
    expect(planRoll(aLook(roll, sets))).toMatchObject(step as object);
  });
});

describe("an update whose set is not there", () => {
  it("ends, audited as cancelled, and leaves the other set what it has", () => {
    expect(planRoll(aLook({ oldDesired: 2 }, { fresh: undefined }))).toMatchObject({
      do: "write-set",
      next: { name: "web", roll: undefined, spec: { replicasDesired: 2 } },
      audits: [{ eventType: "ROLLING_UPDATE_COMPLETION", details: { succeeded: true, canceled: true } }],
    });
    const freed = well({ ...oldSet, roll: undefined });
    expect(planRoll(aLook({}, { fresh: undefined, old: freed }))).toEqual({ do: "end", because: "set-missing" });
  });
});

/** Both sets, their pods and their update, moved by their own plans; whoever acts may stop after any write. */
class World {
  sets: Map<string, ReplicaSet>;
  roll: Roll | undefined;
  pods: (SetPod & { readonly set: string })[] = [];
  readonly nodes: readonly string[];

  constructor(old: number, roll: Roll, nodes: readonly string[]) {
    const web = placedOn(nodes.slice(0, old), { spec: aSpec({ replicasDesired: old, allocationStrategy: "static" }) });
    const fresh = aSet({ name: "web-2", spec: aSpec({ allocationStrategy: "static" }) });
    this.sets = new Map([web, fresh].map((set) => [set.name, set]));
    this.roll = roll;
    this.nodes = nodes;
    this.pods = web.placements.map(({ node, ordinal }) => this.#pod("web", ordinal, node, "READY"));
  }

  healthy(name?: string): number {
    return this.pods.filter((pod) => pod.health === "READY" && (name === undefined || pod.set === name)).length;
  }

  stepSet(name: string): void {
    const set = this.sets.get(name);
    if (set === undefined) return;
    const { change } = planSet(this.#look(set), POLICY);
    if (change !== undefined) this.sets.set(name, change.next);
    else if (set.deletion !== undefined && !this.pods.some((pod) => pod.set === name)) this.sets.delete(name);
  }

  stepPods(name: string): void {
    const set = this.sets.get(name);
    if (set === undefined) return;
    const occupied = new Map(this.pods.map((pod) => [pod.node, pod.name]));
    const [step] = planPods(this.#look(set), occupied, new Map()).filter((each) => each.do !== "wait");
    if (step?.do === "create") this.pods.push(this.#pod(name, step.ordinal, step.node, "NOT_READY"));
    if (step?.do === "delete") this.pods = this.pods.filter((pod) => pod.name !== step.pod);
  }

  stepRoll(): void {
    if (this.roll === undefined) return;
    const { oldSet: old, newSet: fresh } = this.roll;
    const look = { nowMs: 0, roll: this.roll, old: this.#rolled(old), fresh: this.#rolled(fresh), blind: false };
    const step = planRoll(look);
    if (step.do === "write") this.roll = step.next;
    if (step.do === "write-set") this.sets.set(step.next.name, step.next);
    if (step.do === "end") this.roll = undefined;
  }

  recover(which: number): void {
    this.pods = this.pods.map((pod, index) => (index === which % this.pods.length ? { ...pod, health: "READY" } : pod));
  }

  #rolled(name: string): RolledSet | undefined {
    const set = this.sets.get(name);
    if (set === undefined) return undefined;
    const placed = new Set(set.placements.map(({ ordinal }) => podNameOf(name, ordinal)));
    return { set, healthy: this.pods.filter((pod) => pod.health === "READY" && placed.has(pod.name)).length };
  }

  #look(set: ReplicaSet): SetSnapshot {
    const others = [...this.sets.values()].filter(({ name }) => name !== set.name);
    const all = new Set(this.nodes);
    const sight = { labels: { disk: "ssd" }, ready: true, schedulable: true, unreadySinceMs: undefined };
    const sights = this.nodes.map((name) => ({ name, ...sight }));
    return {
      nowMs: 0,
      set,
      roll: set.roll === undefined ? undefined : this.roll,
      nodes: { eligible: all, usable: all },
      taken: new Set(others.flatMap(({ placements }) => placements.map(({ node }) => node))),
      unhealthy: [],
      contest: findContest(set, others, sights),
      ledger: { known: true, byNumber: new Map(), trouble: undefined },
      pods: new Map(this.pods.filter((pod) => pod.set === set.name).map((pod) => [pod.name, pod])),
      templateHash: "h1",
      failsafe: false,
    };
  }

  #pod(set: string, ordinal: number, node: string, health: SetPod["health"]): SetPod & { readonly set: string } {
    const name = podNameOf(set, ordinal);
    return { set, name, uid: `uid-${name}`, node, health, deleting: false };
  }
}

const MOVES = ["roll", "old", "fresh", "old-pods", "fresh-pods", "recover"] as const;

function move(world: World, what: (typeof MOVES)[number], which: number): void {
  if (what === "roll") world.stepRoll();
  else if (what === "old" || what === "fresh") world.stepSet(what === "old" ? "web" : "web-2");
  else if (what === "recover") world.recover(which);
  else world.stepPods(what === "old-pods" ? "web" : "web-2");
}

describe("an update, its sets and their pods, in any order", () => {
  const rolls = fc.record({
    old: fc.integer({ min: 1, max: 6 }),
    target: fc.integer({ min: 1, max: 6 }),
    minimum: fc.integer({ min: 0, max: 5 }),
    spare: fc.integer({ min: 0, max: 3 }),
    moves: fc.array(fc.record({ what: fc.constantFrom(...MOVES), which: fc.nat({ max: 11 }) }), { maxLength: 120 }),
  });

  it("keeps the minimum healthy, one pod a node, and ends with the new set alone", () => {
    fc.assert(
      fc.property(rolls, ({ old, target, minimum, spare, moves }) => {
        fc.pre(minimum <= target && minimum < Math.max(old, target));
        const nodes = Array.from({ length: Math.max(old, target) + spare }, (_none, index) => `n${index}`);
        const world = new World(old, aRoll({ phase: "CREATING", target, minimum }), nodes);
        const floor = Math.min(minimum, old);
        const check = (): void => {
          expect(world.healthy()).toBeGreaterThanOrEqual(floor);
          expect(world.pods.length).toBeLessThanOrEqual(nodes.length);
          expect(new Set(world.pods.map(({ node }) => node)).size).toBe(world.pods.length);
        };
        for (const { what, which } of moves) {
          move(world, what, which);
          check();
        }
        for (let round = 0; round < 60; round += 1) {
          for (const [which, what] of MOVES.entries()) move(world, what, which);
          for (let which = 0; which < world.pods.length; which += 1) world.recover(which);
          check();
        }
        expect(world.roll).toBeUndefined();
        expect([...world.sets.keys()]).toEqual(["web-2"]);
        expect(world.healthy("web-2")).toBe(target);
        expect(world.pods.length).toBe(target);
        expect(world.sets.get("web-2")).toMatchObject({ roll: undefined, spec: { replicasDesired: target } });
      }),
      { numRuns: 500 },
    );
  }, 240_000);
});
