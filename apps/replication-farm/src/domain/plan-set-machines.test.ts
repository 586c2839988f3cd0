import type { QueueChoice } from "@muster/ledger-client/choose-queue";
import { describe, expect, it } from "vitest";
import { makePod, makeRollout, makeSet, makeSnapshot, makeSpec, makePlacedSet, POLICY } from "../../test/a-set.ts";
import { sweepReservations } from "../../test/sweep-plans.ts";
import { isNodeClearOf, planAllocation, type OwnedReservation } from "./plan-allocation.ts";
import {
  findMachineTrouble,
  buildMachineOwner,
  mayHaveMachines,
  planSetMachines,
  readMachineOwner,
} from "./plan-set-machines.ts";
import { planSet } from "./plan-set.ts";
import type { ReplicaMachine, ReplicaSet } from "./replica-set.ts";
import type { LedgerState, MachineState, SetSnapshot } from "./set-snapshot.ts";

const NOW_MS = 1_000_000;

const wished = (number: number, pool = "gpu"): ReplicaMachine => ({ number, pool, grant: undefined, sinceMs: 0 });
const granted = (number: number, node: string, sinceMs = 0): ReplicaMachine => {
  return { number, pool: "gpu", grant: { reservation: `r-${number}`, node }, sinceMs };
};
const waits = (number: number, because = "POOL_AVAILABILITY", pool = "gpu"): [number, MachineState] => {
  return [number, { kind: "waiting", reservation: `r-${number}`, pool, because }];
};
const granting = (number: number, node: string, reservation = `r-${number}`): [number, MachineState] => {
  return [number, { kind: "granted", reservation, pool: "gpu", node }];
};
const TEAM: QueueChoice = { kind: "queue", name: "team" };
const UNKNOWN: QueueChoice = { kind: "unknown", message: "no queue serves it" };
const inQueue = (queue: string | undefined): [number, MachineState] => {
  const [number, state] = waits(1);
  return [number, state.kind === "waiting" && queue !== undefined ? { ...state, queue } : state];
};
const ledgerOf = (sights: readonly [number, MachineState][], more: Partial<LedgerState> = {}): LedgerState => {
  return { known: true, byNumber: new Map(sights), trouble: undefined, ...more };
};

/** A set on machines of pool gpu, one per node; by default it desires as many replicas as it has nodes. */
const onMachines = (nodes: readonly string[], desired = nodes.length, set: Partial<ReplicaSet> = {}): ReplicaSet =>
  makePlacedSet(nodes, {
    spec: makeSpec({ replicasDesired: desired, pool: "gpu", nodeSelector: "" }),
    machines: nodes.map((node, index) => granted(index + 1, node)),
    nextMachine: nodes.length + 1,
    ...set,
  });
const plan = (set: ReplicaSet, eligible: readonly string[], rest: Partial<SetSnapshot> = {}) =>
  planSetMachines(makeSnapshot(set, eligible, rest), POLICY);
const numbersOf = (set: ReplicaSet | undefined) => set?.machines.map(({ number }) => number);

describe("a set on machines of a pool", () => {
  it("requests a machine for each replica without one, under a new number", () => {
    const { change } = plan(onMachines(["a"], 3, { nextMachine: 7 }), ["a"]);
    expect(change).toMatchObject({ because: "machines-wanted", audits: [], next: { nextMachine: 9 } });
    expect(change?.next.machines).toEqual([
      granted(1, "a"),
      { ...wished(7), sinceMs: NOW_MS },
      { ...wished(8), sinceMs: NOW_MS },
    ]);
  });

  it("in its desired state plans nothing", () => {
    expect(plan(onMachines(["a", "b"]), ["a", "b"])).toEqual({ change: undefined, waits: [] });
  });

  it("records grants before it uses them, and then takes the node", () => {
    const set = onMachines([], 1, { machines: [wished(1)], nextMachine: 2 });
    const first = plan(set, [], { ledger: ledgerOf([granting(1, "x")]) }).change;
    expect(first).toMatchObject({ because: "machines-granted", next: { machines: [granted(1, "x", NOW_MS)] } });
    const second = planSet(makeSnapshot(first?.next ?? set, ["x"]), POLICY).change;
    expect(second?.next.placements).toMatchObject([{ node: "x", reservation: "r-1" }]);
  });

  it.each<[string, readonly MachineState[], readonly number[]]>([
    ["no reservation exists", [{ kind: "gone" }], [2]],
    ["another reservation exists", [{ kind: "granted", reservation: "r-9", pool: "gpu", node: "x" }], [2]],
    ["the ledger has reported nothing", [], [1, 2]],
  ])("keeps or drops a grant if under its number %s", (_case, [sight], numbers) => {
    const set = onMachines(["a", "b"]);
    const ledger = ledgerOf(sight === undefined ? [] : [[1, sight]]);
    expect(numbersOf(plan(set, ["a", "b"], { ledger }).change?.next ?? set)).toEqual(numbers);
  });

  it("changes nothing when all its grants disappear together, and reports the loss, until it has lasted long enough", () => {
    const all = ledgerOf([1, 2].map((number) => [number, { kind: "gone" }]));
    const nodes = ["a", "b"];
    const first = planSet(makeSnapshot(onMachines(nodes), nodes, { ledger: all }), POLICY).change?.next;
    expect(first).toMatchObject({ trouble: { code: "MACHINES_GONE", sinceMs: NOW_MS } });
    expect(numbersOf(first)).toEqual([1, 2]);
    const at = (ageMs: number, ledger: LedgerState) =>
      planSet(makeSnapshot(first ?? makeSet(), nodes, { ledger, nowMs: NOW_MS + ageMs }), POLICY);
    const almostMs = POLICY.machinesGoneMs - 1;
    expect(at(almostMs, all)).toEqual({ change: undefined, waits: ["machines-gone"] });
    expect(at(almostMs, ledgerOf([granting(1, "a"), [2, { kind: "gone" }]])).waits).toEqual(["machines-gone"]);
    expect(at(almostMs, ledgerOf([granting(1, "a"), granting(2, "b")])).change?.next.trouble).toBeUndefined();
    const believed = at(POLICY.machinesGoneMs, all).change?.next;
    expect(believed).toMatchObject({ machines: [], placements: [{ node: "a" }, { node: "b" }] });
  });

  it("releases machines that no replica needs: first those not granted yet, then the latest grants", () => {
    const set = onMachines(["a"], 2, {
      machines: [granted(1, "a"), wished(2), granted(3, "c"), granted(4, "d")],
      nextMachine: 5,
    });
    expect(numbersOf(plan(set, ["a", "c", "d"]).change?.next)).toEqual([1, 3]);
  });

  it.each<[string, number, readonly number[] | undefined]>([
    ["for longer than the grace period is replaced", POLICY.nodeGraceMs, [1]],
    ["for less than the grace period is kept", POLICY.nodeGraceMs - 1, undefined],
  ])("a machine without a replica whose node must not be used %s", (_case, ageMs, numbers) => {
    const set = onMachines(["a"], 2, { machines: [granted(1, "a"), granted(2, "b", NOW_MS - ageMs)], nextMachine: 3 });
    expect(numbersOf(plan(set, ["a"]).change?.next)).toEqual(numbers);
  });

  it("releases none while the known state looks like the loss of everything", () => {
    const set = onMachines(["a"], 1, { machines: [granted(1, "a"), granted(2, "b")], nextMachine: 3 });
    expect(plan(set, ["a", "b"], { failsafe: true })).toEqual({ change: undefined, waits: ["failsafe"] });
  });

  it("releases machines of its former pool", () => {
    const set = makeSet({ spec: makeSpec({ replicasDesired: 1, pool: "cpu" }), machines: [wished(1)], nextMachine: 2 });
    expect(numbersOf(plan(set, []).change?.next)).toEqual([]);
    const label = makeSet({ spec: makeSpec({ replicasDesired: 1 }), machines: [wished(1)], nextMachine: 2 });
    expect(numbersOf(plan(label, []).change?.next)).toEqual([]);
  });

  it("keeps its pending requests while it is disabled, and adds none", () => {
    const set = onMachines([], 2, { disabled: true, machines: [wished(1)], nextMachine: 2 });
    expect(plan(set, [])).toEqual({ change: undefined, waits: [] });
  });

  it("wants as many as its rolling update requires", () => {
    const fresh = onMachines([], 0, { name: "web-2", rollout: "web-2" });
    expect(numbersOf(plan(fresh, [], { rollout: makeRollout({ newDesired: 2 }) }).change?.next)).toEqual([1, 2]);
  });

  it("releases all machines when it is deleted, in any other state", () => {
    const set = onMachines(["a"], 1, { deletion: { keepPods: false, atMs: 1 } });
    const { change } = planSet(makeSnapshot(set, [], { nodes: undefined, failsafe: true }), POLICY);
    expect(change).toMatchObject({ because: "deleted", next: { placements: [], machines: [] } });
  });

  it("leaves a cordoned machine once its pod runs on another one, and releases it then", () => {
    const steps: string[] = [];
    let set = onMachines(["a"]);
    for (;;) {
      const ledger = ledgerOf(set.machines.map(({ number }) => granting(number, number === 1 ? "a" : "b")));
      const eligible = set.machines.flatMap(({ grant }) => (grant?.node === "b" ? ["b"] : []));
      const { change } = planSet(makeSnapshot(set, eligible, { ledger }), POLICY);
      if (change === undefined) break;
      steps.push(change.because);
      set = change.next;
    }
    expect(steps).toEqual([
      "node-ineligible",
      "machines-wanted",
      "machines-granted",
      "transfer-placed",
      "transfer-done",
      "machines-surplus",
    ]);
    expect(set).toMatchObject({ placements: [{ node: "b" }], machines: [granted(2, "b", NOW_MS)] });
  });
});

describe("why a set does not get its machines", () => {
  const set = onMachines([], 2, { machines: [wished(1), wished(2)], nextMachine: 3 });
  const away = { code: "LEDGER_AWAY", message: "away" } as const;

  it.each<[string, ReplicaSet, LedgerState, unknown]>([
    [
      "waits for as many machines as the ledger has queued, also in a rolling update",
      { ...set, rollout: "web-2" },
      ledgerOf([waits(1), waits(2, "HELD_FOR_OLDER")]),
      { code: "WAITING_FOR_MACHINE", message: "it is waiting for 2 machines of pool gpu: HELD_FOR_OLDER" },
    ],
    ["is reported while machines are desired", set, ledgerOf([], { trouble: away }), away],
    ["is no trouble while no machine is desired", onMachines(["a"]), ledgerOf([], { trouble: away }), undefined],
    [
      "is reported while a deleted set cannot release",
      onMachines([], 0, { deletion: { keepPods: false, atMs: 1 } }),
      ledgerOf([], { trouble: away }),
      away,
    ],
    ["is unknown before the first call of the ledger", set, ledgerOf([]), undefined],
  ])("%s", (_case, of, ledger, trouble) => {
    expect(findMachineTrouble(makeSnapshot(of, [], { ledger }))).toEqual(trouble);
  });
});

describe("the requests to the ledger", () => {
  const steps = (set: ReplicaSet, ledger: LedgerState, failsafe = false) =>
    planAllocation(set, ledger, { pods: makeSnapshot(set, []).pods.values(), failsafe }).map(
      ({ kind: step, number, because }) => `${step} ${number} ${because}`,
    );

  it("include a machine for each number without one, and the release of undesired ones", () => {
    const set = onMachines(["a"], 3, { machines: [granted(1, "a"), wished(2), wished(3)], nextMachine: 6 });
    expect(steps(set, ledgerOf([granting(1, "a"), waits(2), granting(4, "d"), waits(5)]))).toEqual([
      "allocate 3 not-asked",
      "deallocate 4 not-wanted",
      "deallocate 5 not-wanted",
    ]);
  });

  it("are empty while the ledger's state is unknown", () => {
    expect(steps(onMachines([], 1, { machines: [wished(1)] }), ledgerOf([], { known: false }))).toEqual([]);
  });

  it("release the reservation of a number in another pool before they request it", () => {
    const set = onMachines([], 1, { machines: [wished(1)] });
    expect(steps(set, ledgerOf([waits(1, "POOL_AVAILABILITY", "cpu")]))).toEqual(["deallocate 1 other-pool"]);
  });

  it.each<[string, QueueChoice | undefined, [number, MachineState], readonly string[]]>([
    ["stays in its queue", TEAM, inQueue("team"), []],
    ["moves to the queue that its set has now", TEAM, inQueue("other"), ["deallocate 1 other-queue"]],
    ["enters the first queue", TEAM, inQueue(undefined), ["deallocate 1 other-queue"]],
    ["leaves the last queue", { kind: "none" }, inQueue("team"), ["deallocate 1 other-queue"]],
    ["leaves while its queue is unknown", UNKNOWN, inQueue("team"), ["deallocate 1 other-queue"]],
    ["stays while the queues are not listed", { kind: "unlisted" }, inQueue("team"), []],
    ["keeps a machine that is granted in another queue", TEAM, granting(1, "x"), []],
  ])("a queued request %s", (_title, queue, sight, planned) => {
    const set = onMachines([], 1, { machines: [wished(1)] });
    expect(steps(set, ledgerOf([sight], queue && { queue }))).toEqual(planned);
  });

  it.each<[string, QueueChoice | undefined, string | undefined]>([
    ["in no queue as long as none exists", { kind: "none" }, "in none"],
    ["in the queue of its set", TEAM, "in team"],
    ["not while its queue is unknown", UNKNOWN, undefined],
    ["not while the queues are not listed", { kind: "unlisted" }, undefined],
  ])("request a machine %s", (_title, queue, asked) => {
    const set = onMachines([], 1, { machines: [wished(1)] });
    const planned = planAllocation(set, ledgerOf([], queue && { queue }), { pods: [], failsafe: false });
    const queues = planned.flatMap((step) => (step.kind === "allocate" ? [`in ${step.queue ?? "none"}`] : []));
    expect(queues).toEqual(asked === undefined ? [] : [asked]);
  });

  it("are reported as refused while the queue is unknown", () => {
    const set = onMachines([], 1, { machines: [wished(1)] });
    const trouble = findMachineTrouble(makeSnapshot(set, [], { ledger: ledgerOf([], { queue: UNKNOWN }) }));
    expect(trouble).toEqual({
      code: "MACHINE_REFUSED",
      message: "no machine of pool gpu is requested: QUEUE_UNKNOWN: no queue serves it",
    });
    const idle = makeSnapshot(onMachines(["a"]), ["a"], { ledger: ledgerOf([granting(1, "a")], { queue: UNKNOWN }) });
    expect(findMachineTrouble(idle)).toBeUndefined();
  });

  it("release no machine that a pod of the set is on, nor one that the record still has", () => {
    const set = onMachines(["a"], 1, { machines: [] });
    expect(steps(set, ledgerOf([granting(1, "a")]))).toEqual(["wait 1 pods-there"]);
    expect(steps(set, ledgerOf([granting(2, "b")]), true)).toEqual(["wait 2 failsafe"]);
  });

  it("an unscheduled pod keeps every machine unless it has a placement", () => {
    const set = onMachines(["a"]);
    const [, own] = makePod(set, { node: "a", ordinal: 1, templateHash: "h1", sinceMs: 0, reservation: undefined });
    expect(isNodeClearOf(set, [{ ...own, node: "" }], "b")).toBe(true);
    expect(isNodeClearOf(set, [{ name: "web-9", node: "" }], "b")).toBe(false);
    expect(isNodeClearOf(set, [{ name: "web-9", node: "c" }], "b")).toBe(true);
    expect(isNodeClearOf(set, [{ name: "web-9", node: "b" }], "b")).toBe(false);
  });
});

describe("reservations of sets that do not exist", () => {
  const ghost: OwnedReservation = { set: "ghost", number: 1, reservation: "r-1" };
  const own: OwnedReservation = { set: "web", number: 1, reservation: "r-2" };
  const noPods = { sets: new Set(["web"]), withPods: new Set<string>() };

  it("are released in the second sweep, and only once no pod has the set's name", () => {
    const first = sweepReservations([ghost, own], noPods, new Set());
    expect(first).toEqual({ deallocate: [], suspects: new Set(["r-1"]) });
    expect(sweepReservations([ghost, own], noPods, first.suspects).deallocate).toEqual([ghost]);
    const withPods = new Set(["ghost"]);
    expect(sweepReservations([ghost, own], { ...noPods, withPods }, first.suspects).deallocate).toEqual([]);
  });
});

describe("the owner of a machine at the ledger", () => {
  it.each<[string, unknown]>([
    ["web--12", { set: "web", number: 12 }],
    ["a--1--2", { set: "a--1", number: 2 }],
    ["web--0", undefined],
    ["web--1x", undefined],
    ["web", undefined],
    ["--1", undefined],
  ])("parses %s", (id, owner) => {
    expect(readMachineOwner(id)).toEqual(owner);
  });

  it("is the set and the number, which the set's name does not make ambiguous", () => {
    expect(readMachineOwner(buildMachineOwner("web", 3))).toEqual({ set: "web", number: 3 });
    expect([mayHaveMachines("web-1"), mayHaveMachines("web--1")]).toEqual([true, false]);
  });
});
