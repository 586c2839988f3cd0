import type { ScalingSnapshot } from "../src/domain/compute.ts";
import type { Demand } from "../src/domain/demand.ts";
import type { FreeMachine } from "../src/domain/fit.ts";
import type { NodeSpec, ScaledNode } from "../src/domain/node.ts";
import type { PoolPolicy } from "../src/domain/pool.ts";

export const phases: readonly string[] = ["Available", "Created", "Creating"];

export function getPhaseRank({ status }: ScaledNode): number {
  return phases.indexOf(status.phase);
}

export function order(differences: readonly number[]): number {
  return differences.find((difference) => difference !== 0) ?? 0;
}

export type World = {
  readonly snapshot: ScalingSnapshot;
  readonly nodes: readonly ScaledNode[];
  readonly kept: ReadonlyMap<Demand, ScaledNode>;
  readonly used: Set<ScaledNode | FreeMachine>;
  readonly made: Map<string, number>;
};

export function findMachine(demand: Demand, { snapshot, used }: World): FreeMachine | undefined {
  let found: FreeMachine | undefined;
  for (const machine of snapshot.machines) {
    if (used.has(machine) || machine.pool !== demand.pool) continue;
    if (machine.instanceType !== undefined && !demand.instanceTypes.includes(machine.instanceType)) continue;
    if (demand.spot === "Always" && machine.spot === false) continue;
    if (demand.spot === "Never" && machine.spot === true) continue;
    if (demand.zone !== undefined && machine.zone !== demand.zone) continue;
    if (machine.gpus !== undefined && machine.gpus !== demand.gpus) continue;
    if (found === undefined || machine.name < found.name) found = machine;
  }
  return found;
}

export function findNode(demand: Demand, { snapshot, nodes, used }: World): ScaledNode | undefined {
  const spots = chooseInstance(demand, snapshot).spots;
  let found: ScaledNode | undefined;
  const preference = (node: ScaledNode): number => demand.instanceTypes.indexOf(node.spec.instanceType);
  for (const node of nodes) {
    if (used.has(node) || !fits(node, demand, snapshot, spots)) continue;
    if (found === undefined) found = node;
    else if (
      node.spec.spot === found.spec.spot &&
      getPhaseRank(node) === getPhaseRank(found) &&
      preference(node) < preference(found)
    ) {
      found = node;
    }
  }
  return found;
}

export function fits(
  { spec }: ScaledNode,
  demand: Demand,
  snapshot: ScalingSnapshot,
  spots: readonly boolean[],
): boolean {
  const pool = snapshot.pools.get(demand.pool);
  const fixed = pool !== undefined && snapshot.fixedSizeVolumes.has(pool.provider);
  if (spec.pool !== demand.pool || !demand.instanceTypes.includes(spec.instanceType)) return false;
  if (demand.spot === "Always" && !spec.spot) return false;
  if (demand.spot === "Never" && spec.spot) return false;
  if (demand.zone !== undefined && spec.zone !== demand.zone) return false;
  if (spec.gpus !== demand.gpus || spec.privateIpOnly !== demand.privateIpOnly) return false;
  if (fixed && spec.volumeGib !== (demand.volumeGib ?? pool.volumeGib)) return false;
  return spots.includes(spec.spot);
}

type Instance = Pick<NodeSpec, "instanceType" | "spot" | "zone">;

export function chooseInstance(
  wish: Pick<Demand, "pool" | "instanceTypes" | "spot" | "zone">,
  snapshot: ScalingSnapshot,
): { spots: readonly boolean[]; instance: Instance | undefined } {
  const first = wish.spot !== "Never";
  const spots = wish.spot === "Preferred" ? [true, false] : [first];
  const tried = tryKind(wish, first, snapshot);
  if (tried.instance !== undefined || wish.spot !== "Preferred" || tried.shortSinceMs === undefined) {
    return { spots, instance: tried.instance };
  }
  if (snapshot.nowMs < tried.shortSinceMs + snapshot.limits.spotRequestPauseMs) return { spots, instance: undefined };
  return { spots, instance: tryKind(wish, false, snapshot).instance };
}

function tryKind(
  wish: Pick<Demand, "pool" | "instanceTypes" | "zone">,
  spot: boolean,
  { pools, unavailable, bootImages, nowMs }: ScalingSnapshot,
): { instance: Instance | undefined; shortSinceMs: number | undefined } {
  const pool = pools.get(wish.pool);
  if (pool === undefined || !bootImages.has(wish.pool)) return { instance: undefined, shortSinceMs: undefined };
  let zones = wish.zone === undefined ? (pool.zones ?? [undefined]) : [wish.zone];
  if (wish.zone !== undefined && pool.zones !== undefined && !pool.zones.includes(wish.zone)) zones = [];
  let shortSinceMs: number | undefined;
  for (const instanceType of wish.instanceTypes) {
    for (const zone of zones) {
      const covering = unavailable.filter(
        (mark) =>
          mark.provider === pool.provider &&
          mark.instanceType === instanceType &&
          mark.spot === spot &&
          mark.untilMs > nowMs &&
          (mark.zone === undefined || mark.zone === zone),
      );
      if (covering.length === 0) return { instance: { instanceType, spot, zone }, shortSinceMs: undefined };
      const since = Math.min(...covering.map(({ sinceMs }) => sinceMs));
      shortSinceMs = Math.max(shortSinceMs ?? since, since);
    }
  }
  return { instance: undefined, shortSinceMs };
}

export function kindsOfStandby(pool: PoolPolicy): { instanceType: string; spot: boolean; count: number }[] {
  const kinds: { instanceType: string; spot: boolean; count: number }[] = [];
  for (const { instanceType, spot, count } of pool.standby) {
    const same = kinds.find((kind) => kind.instanceType === instanceType && kind.spot === spot);
    if (same === undefined) kinds.push({ instanceType, spot, count });
    else same.count += count;
  }
  return kinds;
}

export function standing(
  unbound: readonly ScaledNode[],
  pool: PoolPolicy,
  kind: { instanceType: string; spot: boolean },
): ScaledNode[] {
  return unbound.filter(
    ({ spec }) =>
      spec.pool === pool.name &&
      spec.instanceType === kind.instanceType &&
      spec.spot === kind.spot &&
      spec.volumeGib === pool.volumeGib,
  );
}
