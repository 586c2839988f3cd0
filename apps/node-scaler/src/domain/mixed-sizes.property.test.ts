import { subtractAmounts, sumUse, type Amounts } from "@muster/resources";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { grantNaively, type LedgerNeed, type LedgerNode } from "../../test/naive-ledger.ts";
import { aMachine, aNode, aPool, applyPlan, aSnapshot, NOW } from "../../test/scaling-snapshots.ts";
import { buildDemands } from "./build-demands.ts";
import { computeScaling, type ScalingSnapshot } from "./compute.ts";
import type { ComputedNode } from "./fit.ts";

const GPU = "nvidia.com/gpu";
const amounts = (record: Readonly<Record<string, number>>): Amounts => new Map(Object.entries(record));

const SIZES = {
  small: amounts({ cpu: 4, memory: 4, pods: 110 }),
  narrow: amounts({ cpu: 4, memory: 10, pods: 110 }),
  large: amounts({ cpu: 8, memory: 8, pods: 110 }),
  graphic: amounts({ cpu: 8, memory: 8, pods: 110, [GPU]: 2 }),
};
type TypeName = keyof typeof SIZES;
const TYPES: readonly TypeName[] = ["small", "narrow", "large", "graphic"];

function sizeOf(type: string): Amounts {
  const found = TYPES.find((name) => name === type);
  return found === undefined ? new Map() : SIZES[found];
}

type Existing = {
  readonly type: TypeName;
  /** Undefined if no part of the node is granted. */
  readonly used: Amounts | undefined;
  readonly isOwn: boolean;
};

type Gang = { readonly id: string; readonly createdAtMs: number; readonly needs: readonly LedgerNeed[] };

type World = { readonly snapshot: ScalingSnapshot; readonly gangs: readonly Gang[] };

function buildWorld(
  types: readonly TypeName[],
  max: number,
  existing: readonly Existing[],
  gangs: readonly Gang[],
): World {
  const pool = aPool({
    max,
    idleMs: 1e9,
    instanceTypes: types.map((name) => ({
      name,
      cpuMilli: SIZES[name].get("cpu"),
      memoryBytes: SIZES[name].get("memory"),
      gpus: SIZES[name].get(GPU) ?? 0,
    })),
  });
  const named = existing.map((node, index) => ({ ...node, name: `e${index}`, allocatable: SIZES[node.type] }));
  const unused = named.filter(({ used }) => used === undefined);
  const snapshot = aSnapshot({
    pools: [pool],
    parts: named.flatMap(({ name, used, allocatable }) =>
      used === undefined
        ? []
        : [aMachine(name, { room: { allocatable, free: subtractAmounts(allocatable, sumUse(used)) } })],
    ),
    machines: unused.flatMap(({ name, isOwn, allocatable }) =>
      isOwn ? [] : [aMachine(name, { room: { allocatable, free: allocatable } })],
    ),
    nodes: unused.flatMap(({ name, isOwn, type, allocatable }) =>
      isOwn ? [withRoom(aNode(name, { instanceType: type, gpus: allocatable.get(GPU) ?? 0 }))] : [],
    ),
    limits: { bootsPerRound: 100, spotRequestPauseMs: 60_000 },
  });
  return { snapshot: { ...snapshot, demands: demandsOf(snapshot, gangs) }, gangs };
}

function withRoom(node: ComputedNode): ComputedNode {
  const allocatable = sizeOf(node.spec.instanceType);
  return { ...node, room: { allocatable, free: allocatable } };
}

function demandsOf({ pools }: ScalingSnapshot, gangs: readonly Gang[]): ScalingSnapshot["demands"] {
  const waiting = gangs.map(({ id, createdAtMs, needs }) => ({
    owner: { kind: "job", id },
    createdAtMs,
    needs: needs.map((need) => ({ ...need, pool: "gpu" })),
  }));
  return buildDemands(waiting, pools);
}

function ledgerNodesOf({ parts, machines, nodes }: ScalingSnapshot): readonly LedgerNode[] {
  const ofRoom = (use: LedgerNode["use"], { name, room }: Pick<ComputedNode, "name" | "room">): LedgerNode[] =>
    room === undefined ? [] : [{ name, allocatable: room.allocatable, free: room.free, use }];
  return [
    ...parts.flatMap((one) => ofRoom("in-parts", one)),
    ...machines.flatMap((one) => ofRoom("unused", one)),
    ...nodes.filter(({ status }) => status.phase === "Available").flatMap((one) => ofRoom("unused", one)),
  ];
}

/** Makes started nodes ready, and removes terminating ones. */
function passTime(snapshot: ScalingSnapshot): ScalingSnapshot {
  const nodes = snapshot.nodes.flatMap((node): ComputedNode[] => {
    if (node.spec.terminate !== undefined) return [];
    if (node.status.phase !== "Creating") return [node];
    return [withRoom({ ...node, status: { ...node.status, phase: "Available" } })];
  });
  return { ...snapshot, nodes };
}

/** Grants as the ledger does, the oldest gang first. */
function grantAll({ snapshot, gangs }: World): World {
  let nodes = ledgerNodesOf(snapshot);
  const waiting: Gang[] = [];
  const inOrder = gangs.toSorted((one, other) => one.createdAtMs - other.createdAtMs || (one.id < other.id ? -1 : 1));
  for (const gang of inOrder) {
    const grant = grantNaively(nodes, gang.needs);
    if (grant === undefined) waiting.push(gang);
    nodes = grant?.nodes ?? nodes;
  }
  const uses = new Map(nodes.map((node) => [node.name, node]));
  const isUnused = ({ name }: { readonly name: string }): boolean => uses.get(name)?.use === "unused";
  const parts = nodes.flatMap(({ name, use, allocatable, free }) =>
    use === "in-parts" ? [aMachine(name, { room: { allocatable, free } })] : [],
  );
  const after = {
    ...snapshot,
    parts,
    machines: snapshot.machines.filter(isUnused),
    nodes: snapshot.nodes.map((node): ComputedNode => {
      if (node.status.phase !== "Available" || isUnused(node)) return node;
      return { ...node, status: { ...node.status, phase: "Claimed", boundTo: undefined } };
    }),
  };
  return { snapshot: { ...after, demands: demandsOf(after, waiting) }, gangs: waiting };
}

const MAX_ROUNDS = 30;

/** Runs round after round, until no node is started, ended or granted. */
function live(first: World): World {
  let world = first;
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const granted = grantAll(world);
    const plan = computeScaling(granted.snapshot);
    const isQuiet = plan.start.length === 0 && plan.stop.length === 0 && granted.gangs.length === world.gangs.length;
    if (isQuiet) return granted;
    world = { ...granted, snapshot: passTime(applyPlan(granted.snapshot, plan, `r${round}`)) };
  }
  throw new Error("the rounds create and end nodes without end");
}

const anyPart: fc.Arbitrary<Amounts> = fc
  .record({
    cpu: fc.integer({ min: 0, max: 8 }),
    memory: fc.integer({ min: 0, max: 10 }),
    gpu: fc.constantFrom(0, 0, 0, 1),
  })
  .map(({ gpu, ...parts }) => amounts(gpu === 0 ? parts : { ...parts, [GPU]: gpu }));

const anyGang = (index: number): fc.Arbitrary<Gang> =>
  fc
    .record({
      createdAtMs: fc.integer({ min: NOW - 3, max: NOW }),
      parts: fc.array(anyPart, { maxLength: 5 }),
      whole: fc.nat(2),
    })
    .map(({ createdAtMs, parts, whole }) => ({
      id: `g${index}`,
      createdAtMs,
      needs: [
        ...Array.from({ length: whole }, (_, at) => ({ component: `whole-${at}` })),
        ...parts.map((shared, at) => ({ component: `part-${at}`, shared })),
      ],
    }));

const worlds = (gangs: number): fc.Arbitrary<World> =>
  fc
    .record({
      types: fc.shuffledSubarray([...TYPES], { minLength: 1 }),
      max: fc.integer({ min: 0, max: 9 }),
      existing: fc.array(
        fc.record({
          type: fc.constantFrom(...TYPES),
          used: fc.option(anyPart, { nil: undefined }),
          isOwn: fc.boolean(),
        }),
        { maxLength: 4 },
      ),
      gangs: fc.tuple(...Array.from({ length: gangs }, (_, index) => anyGang(index))),
    })
    .map(({ types, max, existing, gangs: some }) => buildWorld(types, max, existing, some));

describe("in a pool of several sizes, some with GPUs", () => {
  it("plans for one gang nodes on which the ledger grants it once they have joined", () => {
    let started = 0;
    fc.assert(
      fc.property(worlds(1), ({ snapshot, gangs }) => {
        const plan = computeScaling(snapshot);
        if (plan.waits.some(({ code }) => code !== "BOOTING")) return;
        started += plan.start.length > 0 ? 1 : 0;
        expect(grantAll({ snapshot: passTime(applyPlan(snapshot, plan, "next")), gangs }).gangs).toEqual([]);
      }),
      { numRuns: 3000 },
    );
    expect(started).toBeGreaterThan(300);
  });

  it("lets no gang wait without a reason", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 4 }).chain(worlds), (world) => {
        const { snapshot, gangs } = live(world);
        const { waits } = computeScaling(snapshot);
        const explained = waits.flatMap(({ code, group }) => (code === "BOOTING" ? [] : [group]));
        for (const { id } of gangs) expect(explained).toContain(`job/${id}`);
      }),
      { numRuns: 2000 },
    );
  });

  it("creates a node for the whole need of a gang whose part the ledger places on the plain free node", () => {
    const needs = [{ component: "all" }, { component: "part", shared: amounts({ cpu: 4, memory: 1 }) }];
    const existing: Existing[] = [
      { type: "large", used: undefined, isOwn: false },
      { type: "graphic", used: amounts({ cpu: 1, memory: 1 }), isOwn: false },
    ];
    const world = buildWorld(["large"], 9, existing, [{ id: "g", createdAtMs: NOW, needs }]);
    const plan = computeScaling(world.snapshot);
    expect(plan.start.map(({ spec }) => spec.instanceType)).toEqual(["large"]);
    expect(plan.bindings.get("job/g/part")).toBe("e0");
    expect(live(world).gangs).toEqual([]);
  });
});
