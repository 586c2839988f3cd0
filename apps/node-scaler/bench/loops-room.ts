import type { Demand } from "../src/domain/demand.ts";
import type { FreeMachine } from "../src/domain/fit.ts";
import type { ScaledNode } from "../src/domain/node.ts";
import {
  chooseInstance,
  findMachine,
  findNode,
  fits,
  kindsOfStandby,
  order,
  standing,
  type World,
} from "./loops-match.ts";

export type Waiting = { readonly group: string; readonly demands: readonly Demand[]; readonly isFull: boolean };

/** Returns names of nodes that end to make room for others, and how many nodes of each pool are created or promised. Standby must count both. */
export function roomOf(
  world: World,
  { waiting, displaceable }: { readonly waiting: readonly Waiting[]; readonly displaceable: readonly Demand[] },
  unbound: readonly ScaledNode[],
  surplus: readonly string[],
): { readonly ended: readonly string[]; readonly promised: Map<string, number> } {
  const { snapshot, made } = world;
  if (!waiting.some(({ isFull }) => isFull)) return { ended: [], promised: made };
  const demands = [...waiting.flatMap((group) => group.demands), ...displaceable];
  const spares = sparesOf(world, demands, unbound, surplus);
  const leaving = unbound.filter(({ name }) => surplus.includes(name));
  const used = new Set<ScaledNode | FreeMachine>([...world.used, ...leaving]);
  const ended: string[] = [];
  const promised = new Map<string, number>();
  for (const { demands } of waiting) {
    const taken: (ScaledNode | FreeMachine)[] = [];
    const wanted = new Map<string, number>();
    let isHopeless = false;
    for (const demand of demands) {
      const thing = findMachine(demand, { ...world, used }) ?? findNode(demand, { ...world, used });
      if (thing !== undefined) {
        used.add(thing);
        taken.push(thing);
      } else if (chooseInstance(demand, snapshot).instance === undefined) isHopeless = true;
      else wanted.set(demand.pool, (wanted.get(demand.pool) ?? 0) + 1);
    }
    const lacking = [...wanted].map(([pool, nodes]) => {
      const left = spares.filter(({ name, spec }) => spec.pool === pool && !ended.includes(name));
      const leaving = leavingOf(world, pool, [...surplus, ...ended]);
      const size = aliveOf(world, pool).length + (made.get(pool) ?? 0) + (promised.get(pool) ?? 0) + nodes;
      const missing = Math.max(0, size - leaving.length - (snapshot.pools.get(pool)?.max ?? 0));
      return { pool, nodes, left, missing };
    });
    if (isHopeless || lacking.some(({ left, missing }) => missing > left.length)) {
      for (const thing of taken) used.delete(thing);
      continue;
    }
    for (const { pool, nodes, left, missing } of lacking) {
      ended.push(...left.slice(0, missing).map(({ name }) => name));
      promised.set(pool, (promised.get(pool) ?? 0) + nodes);
    }
  }
  // A node that ends makes room only for promised capacity.
  const counted = [...snapshot.pools.keys()].map((pool) => {
    const leaving = leavingOf(world, pool, [...surplus, ...ended]).length;
    return [pool, (made.get(pool) ?? 0) + Math.max(0, (promised.get(pool) ?? 0) - leaving)] as const;
  });
  return { ended, promised: new Map(counted) };
}

function aliveOf({ snapshot }: World, pool: string): ScaledNode[] {
  return snapshot.nodes.filter(({ spec, status }) => spec.pool === pool && status.phase !== "Terminated");
}

function leavingOf(world: World, pool: string, names: readonly string[]): ScaledNode[] {
  return aliveOf(world, pool).filter(
    ({ name, spec, status }) => spec.terminate !== undefined || status.phase === "Terminating" || names.includes(name),
  );
}

/** Returns spare nodes, the newest first: without a binding, unusable for all of the demands, and beyond the standby. */
function sparesOf(
  { snapshot }: World,
  demands: readonly Demand[],
  unbound: readonly ScaledNode[],
  surplus: readonly string[],
): ScaledNode[] {
  const couldBeGiven = (node: ScaledNode, demand: Demand): boolean =>
    fits(node, demand, snapshot, chooseInstance(demand, snapshot).spots);
  let spares = unbound
    .filter(({ name, spec }) => snapshot.pools.has(spec.pool) && !surplus.includes(name))
    .filter((node) => !demands.some((demand) => couldBeGiven(node, demand)))
    .sort((a, b) => order([b.status.createdAtMs - a.status.createdAtMs, a.name < b.name ? 1 : -1]));
  for (const pool of snapshot.pools.values()) {
    for (const kind of kindsOfStandby(pool)) {
      const oldest = standing(spares, pool, kind).reverse().slice(0, kind.count);
      spares = spares.filter((node) => !oldest.includes(node));
    }
  }
  return spares;
}
