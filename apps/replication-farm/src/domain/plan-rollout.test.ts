import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { makeRollout, makeSet, makeSpec, makeTransfer, makePlacedSet, POLICY } from "../../test/a-set.ts";
import { decideUndo } from "./decide-undo.ts";
import { planPods } from "./plan-pods.ts";
import { findContestedNodes } from "./find-overlap.ts";
import { planRollout, type RolloutSet, type RolloutSnapshot } from "./plan-rollout.ts";
import { planSet } from "./plan-set.ts";
import { buildPodName, type ReplicaSet } from "./replica-set.ts";
import type { Rollout } from "./rollout.ts";
import type { SetPod, SetSnapshot } from "./set-snapshot.ts";

const well = (set: ReplicaSet): RolloutSet => ({ set, healthy: set.placements.length });
const oldSet = makePlacedSet(["a", "b", "c"], { rollout: "web-2" });
const oldOn = (nodes: readonly string[]): RolloutSet => well(makePlacedSet(nodes, { rollout: "web-2" }));
const newSet = (nodes: readonly string[], set: Partial<ReplicaSet> = {}): ReplicaSet =>
  makePlacedSet(nodes, { name: "web-2", rollout: "web-2", ...set });

function aLook(rollout: Partial<Rollout>, sets: Partial<RolloutSnapshot> = {}): RolloutSnapshot {
  return {
    nowMs: 1_000_000,
    rollout: makeRollout(rollout),
    old: well(oldSet),
    fresh: well(newSet([])),
    blind: false,
    ...sets,
  };
}

describe("an update that is being created", () => {
  const unmarked = (set: ReplicaSet): RolloutSet => well({ ...set, rollout: undefined });

  it("marks one set after the other, and then begins with the numbers of both", () => {
    const first = planRollout(aLook({ phase: "CREATING" }, { old: unmarked(oldSet), fresh: unmarked(newSet([])) }));
    expect(first).toMatchObject({ kind: "write-set", next: { name: "web", rollout: "web-2" } });
    const second = planRollout(aLook({ phase: "CREATING" }, { fresh: unmarked(newSet([])) }));
    expect(second).toMatchObject({ kind: "write-set", next: { name: "web-2", rollout: "web-2" } });
    expect(planRollout(aLook({ phase: "CREATING", oldDesired: 9, newDesired: 9, undoTarget: 9 }))).toMatchObject({
      kind: "write",
      next: { phase: "RUNNING", oldDesired: 3, newDesired: 0, undoTarget: 3 },
      audits: [{ eventType: "ROLLING_UPDATE_CREATION" }],
    });
  });

  it("is abandoned if a set was scaled meanwhile so that the minimum could never be kept", () => {
    const small = { ...oldSet, spec: { ...oldSet.spec, replicasDesired: 1 } };
    const look = { phase: "CREATING", target: 2, minimum: 2 } as const;
    const given = planRollout(aLook(look, { old: well(small), fresh: unmarked(newSet([])) }));
    expect(given).toMatchObject({
      kind: "write-set",
      next: { name: "web", rollout: undefined, spec: { replicasDesired: 1 } },
      audits: [{ eventType: "ROLLING_UPDATE_COMPLETION", details: { succeeded: false, canceled: true } }],
    });
    const both = { old: unmarked(small), fresh: unmarked(newSet([])) };
    expect(planRollout(aLook(look, both))).toMatchObject({
      kind: "end",
      because: "minimum-too-high",
      audits: [{ eventType: "ROLLING_UPDATE_COMPLETION", details: { canceled: true, reason: "minimum-too-high" } }],
    });
  });

  it("yields to an update that has one of its sets", () => {
    const others = well({ ...newSet([]), rollout: "web-9" });
    const given = planRollout(aLook({ phase: "CREATING" }, { fresh: others }));
    expect(given).toMatchObject({
      kind: "write-set",
      next: { name: "web", rollout: undefined },
      audits: [{ details: { succeeded: false, canceled: true, reason: "set-in-another-update" } }],
    });
    expect(planRollout(aLook({ phase: "CREATING" }, { old: unmarked(oldSet), fresh: others }))).toMatchObject({
      kind: "end",
      because: "set-in-another-update",
      audits: [{ details: { succeeded: false, canceled: true, reason: "set-in-another-update" } }],
    });
  });
});

describe("an update that runs", () => {
  it.each<[string, Partial<Rollout>, Partial<RolloutSnapshot>, unknown]>([
    ["moves as many as health allows", { newDesired: 0 }, {}, { next: { oldDesired: 2, newDesired: 1 } }],
    [
      "waits for health",
      { oldDesired: 2 },
      { old: oldOn(["a", "b"]), fresh: { set: newSet(["d"]), healthy: 0 } },
      { because: "minimum-healthy" },
    ],
    ["waits between steps", { delayMs: 1000, lastStepAtMs: 999_500 }, {}, { because: "delay" }],
    ["does not wait before the first replica", { newDesired: 0, delayMs: 9e9 }, {}, { because: "next-step" }],
    ["does nothing while it is paused", { phase: "PAUSED" }, {}, { because: "paused" }],
    [
      "does not continue before the last step was carried out",
      { newDesired: 1, oldDesired: 2, minimum: 0 },
      { fresh: well(newSet(["d"])) },
      { because: "surplus-there" },
    ],
    ["does nothing while health is unknown", {}, { blind: true }, { because: "blind" }],
    [
      "waits until all new replicas have placements",
      { newDesired: 3, oldDesired: 0 },
      { old: oldOn([]), fresh: well(newSet(["d"])) },
      { because: "places-missing" },
    ],
    [
      "replaces a version that is known to be bad as the minimum permits",
      { newDesired: 3, oldDesired: 0, minimum: 0 },
      { old: oldOn([]), fresh: { set: newSet(["d", "e", "f"]), healthy: 0 } },
      { next: { phase: "FINISHING" } },
    ],
    [
      "removes the remainder of a larger old set",
      { target: 1, newDesired: 1, oldDesired: 3, minimum: 2 },
      { fresh: well(newSet(["d"])) },
      { next: { oldDesired: 1 } },
    ],
    [
      "keeps a canary beside the old set",
      { target: 1, newDesired: 1, oldDesired: 3, leaveOld: true },
      { fresh: well(newSet(["d"])) },
      { next: { phase: "FINISHING", oldDesired: 3 } },
    ],
  ])("%s", (_case, rollout, sets, step) => {
    expect(planRollout(aLook(rollout, sets))).toMatchObject(step as object);
  });
});

describe("the audit of an update", () => {
  const auditsOf = (look: RolloutSnapshot) => {
    const step = planRollout(look);
    return step.kind === "write" || step.kind === "write-set" ? step.audits : [];
  };

  it("names who requested it, and that it is a canary", () => {
    const [begun] = auditsOf(aLook({ phase: "CREATING", by: "ann", leaveOld: true }));
    expect(begun).toMatchObject({ eventType: "ROLLING_UPDATE_CREATION", details: { by: "ann", leave_old: true } });
  });

  it("records the end of the old set, and calls an undone update cancelled", () => {
    const gone = aLook({ phase: "FINISHING" }, { old: well({ ...oldSet, placements: [] }) });
    expect(auditsOf(gone)).toMatchObject([{ eventType: "DELETED", details: { roll_id: "web-2" } }]);
    const end = { old: well({ ...oldSet, rollout: undefined }) };
    expect(auditsOf(aLook({ phase: "FINISHING" }, end))[0]?.details).toMatchObject({
      succeeded: true,
      canceled: false,
    });
    const undone = auditsOf(aLook({ phase: "FINISHING", undone: 1 }, end));
    expect(undone[0]?.details).toMatchObject({ succeeded: false, canceled: true });
  });
});

describe("sets that share their nodes after a canary", () => {
  it("both report it, beside the earlier overlaps, and only so many", () => {
    const before = Array.from({ length: 16 }, (_none, index) => `s${index}`);
    const look = { phase: "FINISHING", leaveOld: true, newDesired: 3 } as const;
    const old = well({ ...oldSet, sharesWith: before });
    const first = planRollout(aLook(look, { old, fresh: well(newSet(["d"])) }));
    expect(first).toMatchObject({ next: { name: "web", sharesWith: [...before.slice(1), "web-2"] } });
    const freed = well({ ...oldSet, rollout: undefined });
    const second = planRollout(aLook(look, { old: freed, fresh: well(newSet(["d"], { sharesWith: ["web"] })) }));
    expect(second).toMatchObject({ next: { name: "web-2", sharesWith: ["web"] } });
  });

  it("also share with the successor of one of them", () => {
    const fresh = well(newSet([], { rollout: undefined }));
    const old = well({ ...oldSet, sharesWith: ["canary", "web-2"] });
    const marks = planRollout(aLook({ phase: "CREATING" }, { old, fresh }));
    expect(marks).toMatchObject({ kind: "write-set", next: { name: "web-2", sharesWith: ["canary"] } });
  });
});

it("an update waits until a set has finished leaving a node", () => {
  const transfer = makeTransfer("a", "d");
  const leaving = well({ ...oldSet, transfer });
  expect(planRollout(aLook({ phase: "CREATING" }, { old: leaving }))).toEqual({
    kind: "wait",
    because: "transfer-there",
  });
});

describe("an update whose set is missing", () => {
  it("ends, audited as cancelled, and leaves the other set its replicas", () => {
    expect(planRollout(aLook({ oldDesired: 2 }, { fresh: undefined }))).toMatchObject({
      kind: "write-set",
      next: { name: "web", rollout: undefined, spec: { replicasDesired: 2 } },
      audits: [{ eventType: "ROLLING_UPDATE_COMPLETION", details: { succeeded: true, canceled: true } }],
    });
    const deleted = well(newSet(["d"], { rollout: undefined, deletion: { keepPods: false, atMs: 0 } }));
    for (const phase of ["CREATING", "RUNNING", "PAUSED"] as const)
      expect(planRollout(aLook({ phase, oldDesired: 2 }, { fresh: deleted }))).toMatchObject({
        kind: "write-set",
        next: { name: "web", rollout: undefined, spec: { replicasDesired: phase === "CREATING" ? 3 : 2 } },
      });
    const freed = well({ ...oldSet, rollout: undefined });
    expect(planRollout(aLook({}, { fresh: undefined, old: freed }))).toMatchObject({
      kind: "end",
      because: "set-missing",
    });
  });
});

/** Both sets, their pods and their update, driven by their own plans; each actor may stop after any write. */
class World {
  sets: Map<string, ReplicaSet>;
  rollout: Rollout | undefined;
  /** The update, or its last state before it ended. */
  last: Rollout;
  pods: (SetPod & { readonly set: string })[] = [];
  readonly nodes: string[];
  readonly cordoned = new Set<string>();
  readonly #old: number;
  readonly relabelled = new Set<string>();
  nowMs = 0;
  #nodesEver = 0;
  /** Pods that became unhealthy between a step of the update and the set's execution of it. */
  #illMeanwhile = 0;

  constructor(old: number, rollout: Rollout, nodes: readonly string[]) {
    const web = makePlacedSet(nodes.slice(0, old), { spec: makeSpec({ replicasDesired: old }) });
    const fresh = makeSet({ name: "web-2" });
    this.sets = new Map([web, fresh].map((set) => [set.name, set]));
    this.#old = old;
    this.rollout = rollout;
    this.last = rollout;
    this.nodes = [...nodes];
    this.pods = web.placements.map(({ node, ordinal }) => this.#pod("web", ordinal, node, "READY"));
  }

  /** The pods of both sets that have a placement and are ready. */
  healthy(): number {
    return [...this.sets.keys()].reduce((sum, name) => sum + (this.#rolled(name)?.healthy ?? 0), 0);
  }

  /** The minimum of healthy replicas after any removal. */
  least(): number {
    // Pods that an undo has begun to remove may still end once the undo is undone.
    const { undone, minimum } = this.last;
    return (undone === 0 ? minimum : Math.min(minimum, this.#old)) - this.#illMeanwhile;
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
    const [step] = planPods(this.#look(set), occupied, new Map()).filter((each) => each.kind !== "wait");
    if (step?.kind === "create") this.pods.push(this.#pod(name, step.ordinal, step.node, "NOT_READY"));
    if (step?.kind === "delete") this.pods = this.pods.filter((pod) => pod.name !== step.pod);
  }

  stepRollout(): void {
    if (this.rollout === undefined) return;
    const { oldSet: old, newSet: fresh } = this.rollout;
    const look = {
      nowMs: this.nowMs,
      rollout: this.rollout,
      old: this.#rolled(old),
      fresh: this.#rolled(fresh),
      blind: false,
    };
    const step = planRollout(look);
    if (step.kind === "write") {
      this.#write(step.next);
      this.#illMeanwhile = 0;
    }
    if (step.kind === "write-set") this.sets.set(step.next.name, step.next);
    if (step.kind === "end") this.rollout = undefined;
  }

  recover(which: number): void {
    this.pods = this.pods.map((pod, index) => (index === which % this.pods.length ? { ...pod, health: "READY" } : pod));
  }

  undo(): void {
    if (this.rollout?.phase !== "RUNNING") return;
    const verdict = decideUndo(this.rollout);
    if (verdict.kind === "undone") this.#write(verdict.next);
  }

  #write(rollout: Rollout): void {
    this.rollout = rollout;
    this.last = rollout;
  }

  fallIll(which: number): void {
    const pod = this.pods[which % this.pods.length];
    if (pod?.health !== "READY") return;
    this.#illMeanwhile += 1;
    this.pods = this.pods.map((each) => (each === pod ? { ...pod, health: "NOT_READY" } : each));
  }

  cordon(which: number): void {
    toggle(this.cordoned, this.nodes[which % this.nodes.length]);
  }

  relabel(which: number): void {
    toggle(this.relabelled, this.nodes[which % this.nodes.length]);
  }

  /** Removes a node with its pod. */
  vanish(which: number): void {
    const [gone] = this.nodes.splice(which % Math.max(1, this.nodes.length), 1);
    this.#illMeanwhile += this.pods.filter(({ node, health }) => node === gone && health === "READY").length;
    this.pods = this.pods.filter(({ node }) => node !== gone);
  }

  appear(): void {
    this.#nodesEver += 1;
    this.nodes.push(`m${this.#nodesEver}`);
  }

  /** The update is over, and both sets are in their final state. */
  isAtRest(): boolean {
    const [set, ...others] = this.sets.values();
    const isWhole = this.healthy() === set?.spec.replicasDesired && this.pods.length === this.healthy();
    return this.rollout === undefined && others.length === 0 && isWhole;
  }

  /** Desired replicas of both sets together. */
  wanted(): number {
    return this.last.oldDesired + this.last.newDesired;
  }

  #rolled(name: string): RolloutSet | undefined {
    const set = this.sets.get(name);
    if (set === undefined) return undefined;
    const placed = new Set(set.placements.map(({ ordinal }) => buildPodName(name, ordinal)));
    return { set, healthy: this.pods.filter((pod) => pod.health === "READY" && placed.has(pod.name)).length };
  }

  #look(set: ReplicaSet): SetSnapshot {
    const others = [...this.sets.values()].filter(({ name }) => name !== set.name);
    const usable = new Set(this.nodes.filter((node) => !this.cordoned.has(node)));
    const eligible = new Set([...usable].filter((node) => !this.relabelled.has(node)));
    const sights = this.nodes.map((name) => ({
      name,
      labels: { disk: this.relabelled.has(name) ? "hdd" : "ssd" },
      ready: true,
      schedulable: usable.has(name),
      unreadySinceMs: undefined,
    }));
    return {
      nowMs: this.nowMs,
      set,
      rollout: set.rollout === undefined ? undefined : this.rollout,
      nodes: { eligible, usable, unusable: new Map(), foreign: new Map() },
      taken: new Set(others.flatMap(({ placements }) => placements.map(({ node }) => node))),
      unhealthy: [],
      contest: findContestedNodes(set, others, sights),
      ledger: { known: true, byNumber: new Map(), trouble: undefined },
      pods: new Map(this.pods.filter((pod) => pod.set === set.name).map((pod) => [pod.name, pod])),
      templateHash: "h1",
      failsafe: false,
    };
  }

  #pod(set: string, ordinal: number, node: string, health: SetPod["health"]): SetPod & { readonly set: string } {
    const name = buildPodName(set, ordinal);
    return { set, name, uid: `uid-${name}`, node, health, sinceMs: 0, deleting: false };
  }
}

function toggle(set: Set<string>, node: string | undefined): void {
  if (node !== undefined && !set.delete(node)) set.add(node);
}

const MOVES = ["rollout", "old", "fresh", "old-pods", "fresh-pods", "recover"] as const;
const MISHAPS = ["time", "ill", "cordon", "relabel", "vanish", "appear", "undo"] as const;
type Move = (typeof MOVES)[number] | (typeof MISHAPS)[number];

function move(world: World, what: Move, which: number): void {
  // The owner returns immediately after each step.
  if (what === "rollout") for (let step = 0; step <= which % 4; step += 1) world.stepRollout();
  else if (what === "old" || what === "fresh") world.stepSet(what === "old" ? "web" : "web-2");
  else if (what === "recover") world.recover(which);
  else if (what === "ill") world.fallIll(which);
  else if (what === "cordon") world.cordon(which);
  else if (what === "time") world.nowMs += 60_000;
  else if (what === "relabel") world.relabel(which);
  else if (what === "vanish") world.vanish(which);
  else if (what === "appear") world.appear();
  else if (what === "undo") world.undo();
  else world.stepPods(what === "old-pods" ? "web" : "web-2");
}

describe("an update, its sets and their pods, in any order, with changing nodes, failing pods, and undos", () => {
  const what = fc.constantFrom<Move>(...MOVES, ...MISHAPS);
  const some = fc.array(fc.nat({ max: 5 }), { maxLength: 4 });
  type Start = {
    readonly old: number;
    readonly target: number;
    readonly minimum: number;
    readonly spare: number;
    readonly ill: readonly number[];
    readonly cordoned: readonly number[];
    readonly moves: readonly { readonly what: Move; readonly which: number }[];
  };
  const rollouts: fc.Arbitrary<Start> = fc.record({
    old: fc.integer({ min: 1, max: 6 }),
    target: fc.integer({ min: 1, max: 6 }),
    minimum: fc.integer({ min: 0, max: 5 }),
    spare: fc.integer({ min: 0, max: 3 }),
    ill: some,
    cordoned: some,
    moves: fc.array(fc.record({ what, which: fc.nat({ max: 11 }) }), { maxLength: 120 }),
  });

  /** Makes two steps before the old set carries out the first one; then the old set removes healthy pods from cordoned nodes. */
  const twoStepsAtOnce: Start = {
    old: 4,
    target: 2,
    minimum: 1,
    spare: 0,
    ill: [0, 2],
    cordoned: [1, 3],
    moves: [
      { what: "rollout", which: 3 },
      { what: "rollout", which: 3 },
      { what: "old", which: 0 },
    ],
  };

  it("removes no replica below the minimum, keeps one pod per node, and ends with only the set that it leads to", () => {
    fc.assert(
      fc.property(rollouts, ({ old, target, minimum, spare, ill, cordoned, moves }) => {
        fc.pre(minimum <= target && minimum < Math.max(old, target));
        const nodes = Array.from({ length: Math.max(old, target) + spare }, (_none, index) => `n${index}`);
        const world = new World(
          old,
          makeRollout({ phase: "CREATING", oldDesired: old, newDesired: 0, target, minimum }),
          nodes,
        );
        const step = (what: Move, which: number): void => {
          const before = world.healthy();
          const isRunning = world.rollout !== undefined && world.rollout.phase !== "CREATING";
          move(world, what, which);
          if (isRunning && what !== "ill" && what !== "vanish" && world.healthy() < before)
            expect(world.healthy()).toBeGreaterThanOrEqual(world.least());
          expect(new Set(world.pods.map(({ node }) => node)).size).toBe(world.pods.length);
          const most = Math.max(old, target);
          expect(world.wanted()).toBeLessThanOrEqual(most);
          // The new node of a transfer adds one placement.
          for (const { placements } of world.sets.values()) expect(placements.length).toBeLessThanOrEqual(most + 1);
        };
        for (const which of ill) step("ill", which);
        for (const which of cordoned) step("cordon", which);
        for (const { what, which } of moves) step(what, which);
        world.cordoned.clear();
        world.relabelled.clear();
        while (world.nodes.length < Math.max(old, target)) world.appear();
        for (let round = 0; round < 120 && !world.isAtRest(); round += 1) {
          for (const [which, what] of MOVES.entries()) step(what, which);
          for (let which = 0; which < world.pods.length; which += 1) world.recover(which);
          world.nowMs += 60_000;
        }
        const { newSet: name, target: replicasDesired } = world.last;
        expect(world.rollout).toBeUndefined();
        expect(replicasDesired).toBe(name === "web" ? old : target);
        expect([...world.sets.keys()]).toEqual([name]);
        expect(world.healthy()).toBe(replicasDesired);
        expect(world.pods.length).toBe(replicasDesired);
        expect(world.sets.get(name)).toMatchObject({ rollout: undefined, spec: { replicasDesired } });
      }),
      { numRuns: 300, examples: [[twoStepsAtOnce]] },
    );
  }, 240_000);
});

it("an undone update that continued a canary restores the canary's number", () => {
  const rollout = makeRollout({
    phase: "FINISHING",
    undone: 1,
    oldSet: "web-2",
    newSet: "web",
    leaveOld: true,
    newBefore: 1,
  });
  const canary = { set: makePlacedSet(["a", "b"], { name: "web-2", rollout: rollout.id }), healthy: 2 };
  const step = planRollout({
    nowMs: 0,
    rollout,
    old: canary,
    fresh: { set: makePlacedSet(["c", "d"], { rollout: rollout.id }), healthy: 2 },
    blind: false,
  });
  expect(step).toMatchObject({ kind: "write-set", next: { name: "web-2", rollout: undefined, deletion: undefined } });
  expect(step).toMatchObject({ next: { spec: { replicasDesired: 1 } } });
});
