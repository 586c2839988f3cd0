import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { makeSet, makeSpec } from "./a-set.ts";
import { buildMachineOwner } from "../src/domain/plan-set-machines.ts";
import { buildPodName, type ReplicaSet } from "../src/domain/replica-set.ts";
import { MachinesModel, POOL, SET } from "./machines-model.ts";
import { listLivePods, makeModelFarm, NODE_LOST_MS, type Fate, type ModelFarm } from "./model-farm.ts";
import { sweepPods, sweepReservations } from "./sweep-plans.ts";

const NODES = 4;
const ROUND_MS = 5000;
/** Longer than all pauses and limits together. */
const ROUNDS = 60;

const PLAIN = [
  "delete",
  "create",
  "grant",
  "watch",
  "run-nodes",
  "hear",
  "away",
  "back",
  "sweep",
  "take-over",
] as const;

type Plain =
  | { readonly kind: (typeof PLAIN)[number] | "pass" | "passes" }
  | { readonly kind: "scale" | "others"; readonly to: number }
  | { readonly kind: "cordon" | "lose" | "mend"; readonly node: number }
  | { readonly kind: "wait"; readonly ms: number };
/** A pass that does not end as it began. */
type Ill = { readonly kind: "ill-pass"; readonly fate: Fate; readonly meanwhile: readonly Plain[] };

const plain = fc.oneof(
  { weight: 8, arbitrary: fc.constantFrom("pass", "passes").map((name) => ({ kind: name })) },
  { weight: 8, arbitrary: fc.constantFrom(...PLAIN).map((name) => ({ kind: name })) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constantFrom("scale", "others"), to: fc.nat(NODES + 1) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constantFrom("cordon", "lose", "mend"), node: fc.nat(NODES - 1) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("wait"), ms: fc.nat(40_000) }) },
);
/** A pod that is not ready in time is given up before the watcher has published it; its node gets another one. */
const UNSEEN: Plain[] = [
  { kind: "cordon", node: 0 },
  ...(["passes", "grant", "hear", "passes"] as const).map((kind) => ({ kind })),
  { kind: "wait", ms: 30_000 },
  { kind: "scale", to: 3 },
  { kind: "passes" },
];
/** The usual next events, or some of them: without these most runs would end before a pod runs. */
const GO_ON = ["grant", "hear", "passes", "watch", "run-nodes", "watch", "passes"] as const;
const goOn = fc.subarray([...GO_ON]).map((names) => names.map((name) => ({ kind: name })));
const ill = fc.record({
  kind: fc.constant("ill-pass"),
  fate: fc.record({ atCall: fc.nat(12), then: fc.constantFrom("dies-before", "dies-after", "sleeps") }),
  meanwhile: fc.array(fc.oneof(plain, goOn), { maxLength: 10, size: "max" }).map((steps) => steps.flat()),
});

/** One set, the farms that own it one after the other, and the other owners of machines. */
class Run {
  readonly model = new MachinesModel(NODES);
  #farm: ModelFarm;
  #fences = 0;
  #meanwhile: readonly Plain[] = [];
  #suspects = { pods: new Set<string>() as ReadonlySet<string>, machines: new Set<string>() as ReadonlySet<string> };

  constructor() {
    this.#farm = this.#next();
    this.create(2);
  }

  #next(): ModelFarm {
    this.#fences += 1;
    return makeModelFarm(this.model, this.#fences, async () => {
      this.#farm = this.#next();
      for (const each of this.#meanwhile) await this.take(each);
    });
  }

  create(replicasDesired: number): void {
    if (this.model.set !== undefined) return;
    const spec = makeSpec({ pool: POOL, nodeSelector: "", replicasDesired });
    this.model.put(makeSet({ name: SET, uid: `set-${this.model.newId()}`, fence: 0, spec }));
    this.#farm = this.#next();
  }

  async take(step: Plain | Ill): Promise<void> {
    const { model } = this;
    if (step.kind.includes("pass") && !model.isWatched) return;
    switch (step.kind) {
      case "pass":
        await this.#farm.pass();
        return;
      case "passes":
        for (let more = true; more;) more = await this.#farm.pass();
        return;
      case "ill-pass": {
        this.#meanwhile = step.meanwhile;
        const farm = this.#farm;
        await farm.pass(step.fate);
        // The session of this farm has expired, even if the farm does not know.
        if (this.#farm === farm) this.#farm = this.#next();
        return;
      }
      case "take-over":
        this.#farm = this.#next();
        return;
      case "hear":
        this.#farm.hear();
        return;
      case "sweep":
        this.sweep();
        return;
      case "create":
        this.create(2);
        return;
      case "away":
      case "back":
        model.ledgerAway = step.kind === "away";
        return;
      case "wait":
        model.nowMs += step.ms;
        return;
      case "grant":
        model.grant();
        return;
      case "watch":
        model.watch();
        return;
      case "run-nodes":
        model.runNodes();
        return;
      case "others":
        this.others(step.to);
        return;
      case "scale":
        this.#change((set) => ({ ...set, spec: { ...set.spec, replicasDesired: step.to } }));
        return;
      case "delete":
        this.#change((set) => ({ ...set, deletion: { keepPods: false, atMs: model.nowMs } }));
        return;
      case "cordon":
      case "lose":
      case "mend":
        this.#node(step);
    }
  }

  #change(change: (set: ReplicaSet) => ReplicaSet): void {
    const { set } = this.model;
    if (set !== undefined && set.deletion === undefined) this.model.put(change(set));
  }

  #node({ kind: what, node: index }: { readonly kind: "cordon" | "lose" | "mend"; readonly node: number }): void {
    const node = this.model.nodes.get(`n-${index}`);
    if (node === undefined) return;
    if (what === "cordon") node.schedulable = false;
    else if (what === "lose") Object.assign(node, { ready: false, unreadySinceMs: this.model.nowMs });
    else Object.assign(node, { ready: true, schedulable: true, unreadySinceMs: undefined });
  }

  /** Adds or ends reservations of jobs until `wanted` exist. */
  others(wanted: number): void {
    const { model } = this;
    if (model.ledgerAway) return;
    const own = model.reservations.filter(({ owner }) => owner.startsWith("job-"));
    for (const { id } of own.slice(wanted)) model.end(id);
    for (let missing = wanted - own.length; missing > 0; missing -= 1) model.reserve(`job-${model.newId()}`);
  }

  /** Acts as farms do on objects that no set has. */
  sweep(): void {
    const { model } = this;
    if (model.ledgerAway) return;
    const uids = new Map(model.set === undefined ? [] : [[SET, model.set.uid]]);
    const force = { nodeLostMs: NODE_LOST_MS };
    const pods = sweepPods(listLivePods(model), uids, this.#suspects.pods, model.nowMs, force);
    for (const { pod, force: forced } of pods.delete) model.deletePod(pod.pod, pod.uid, forced);
    const reserved = [...model.ownReservations()].map(([number, { reservation }]) => ({
      set: SET,
      number,
      reservation,
    }));
    const withPods = new Set(listLivePods(model).map(({ set }) => set));
    const sets = new Set(uids.keys());
    const machines = sweepReservations(reserved, { sets, withPods }, this.#suspects.machines);
    for (const { reservation } of machines.deallocate) model.unreserve(reservation);
    this.#suspects = { pods: pods.suspects, machines: machines.suspects };
  }

  /** Everything recovers, and no desired state changes from here on. */
  async rest(): Promise<void> {
    const { model } = this;
    model.ledgerAway = false;
    for (const index of model.nodes.keys()) this.#node({ kind: "mend", node: Number(index.slice(2)) });
    this.#farm = this.#next();
    for (let round = 0; round < ROUNDS; round += 1) {
      model.nowMs += ROUND_MS;
      model.grant();
      this.#farm.hear();
      model.watch();
      await this.take({ kind: "passes" });
      model.runNodes();
      this.sweep();
    }
  }
}

async function run(steps: readonly (Plain | Ill | readonly Plain[])[]): Promise<Run> {
  const all = new Run();
  for (const name of [...GO_ON, ...GO_ON]) await all.take({ kind: name });
  for (const each of steps.flat()) await all.take(each);
  return all;
}

function expectRest({ model }: Run): void {
  const { set, broken } = model;
  expect(broken).toEqual([]);
  const own = model.reservations.filter(({ owner }) => !owner.startsWith("job-"));
  if (set === undefined) {
    expect(own).toEqual([]);
    expect([...model.pods.keys()]).toEqual([]);
    return;
  }
  expect(set.deletion).toBeUndefined();
  const machines = set.machines.map(({ number, grant }) => ({
    owner: buildMachineOwner(SET, number),
    ...named(grant),
  }));
  expect(sorted(own.map(({ id, owner, node }) => (node === undefined ? { owner } : { owner, id, node })))).toEqual(
    sorted(machines),
  );
  const granted = set.machines.flatMap(({ grant }) => grant?.node ?? []);
  expect(set.placements.map(({ node }) => node)).toEqual(granted.toSorted());
  const pods = [...model.pods.values()].map(({ name, node, ready }) => `${name} ${node} ${ready}`);
  expect(pods.toSorted()).toEqual(
    set.placements.map(({ node, ordinal }) => `${buildPodName(SET, ordinal)} ${node} true`).toSorted(),
  );
  const others = model.reservations.filter(({ owner, node }) => owner.startsWith("job-") && node !== undefined).length;
  expect(set.placements).toHaveLength(Math.min(set.spec.replicasDesired, NODES - others));
  expect(set.machines).toHaveLength(set.spec.replicasDesired);
}

function named(grant: { readonly reservation: string; readonly node: string } | undefined) {
  return grant === undefined ? {} : { id: grant.reservation, node: grant.node };
}

function sorted<Value extends { readonly owner: string }>(values: readonly Value[]): Value[] {
  return values.toSorted((a, b) => a.owner.localeCompare(b.owner));
}

describe("machines of a set, after any events between two calls of its farms", () => {
  it("settle to exactly those of its record, one per replica, and none is released under a pod", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.oneof(plain, ill, goOn), { minLength: 5, maxLength: 50, size: "max" }),
        async (steps) => {
          const all = await run(steps);
          await all.rest();
          expectRest(all);
        },
      ),
      { numRuns: 300, examples: [[UNSEEN]] },
    );
  });
});
