import type { Demand } from "./demand.ts";
import { phaseRank, volumeFor, type Pool } from "./fit.ts";
import type { ScaledNode } from "./node.ts";

/** Nodes that nothing is bound to, found by what must match. Taking one and putting it back cost the same however many there are. */
export type FreeNodes = {
  /** The best node of the first kind (spot or not) of which there is one that suits; of several types the one that is ready sooner, then the preferred one. */
  take(demand: Demand, spots: readonly boolean[]): ScaledNode | undefined;
  /** How many have been taken. */
  taken(): number;
  /** Puts back those that were taken last, down to this many. */
  rewind(taken: number): void;
};

/**
 * One node in a ring of those that suit alike, best first; the first link of a ring is none of them. A link that was taken out keeps its neighbours, so that it can
 * be put back as long as that happens in the reverse order.
 */
class Link {
  readonly node: ScaledNode | undefined;
  before: Link = this;
  after: Link = this;

  constructor(node: ScaledNode | undefined) {
    this.node = node;
  }
}

/** Nodes come in the order of `compareNodes`; those of pools that are not given are left out. */
export function indexFreeNodes(nodes: readonly ScaledNode[], pools: ReadonlyMap<string, Pool>): FreeNodes {
  const rings = new Map<string, Link>();
  const links = new Map<ScaledNode, readonly Link[]>();
  const stack: ScaledNode[] = [];
  for (const node of nodes) {
    const pool = pools.get(node.spec.pool);
    if (pool === undefined) continue;
    links.set(
      node,
      keysOf(node, pool).map((key) => append(ringOf(rings, key), node)),
    );
  }
  return {
    take: (demand, spots) => {
      const pool = pools.get(demand.pool);
      if (pool === undefined) return undefined;
      for (const spot of spots) {
        const node = best(demand, pool, spot, rings);
        if (node === undefined) continue;
        for (const link of links.get(node) ?? []) takeOut(link);
        stack.push(node);
        return node;
      }
      return undefined;
    },
    taken: () => stack.length,
    rewind: (taken) => {
      while (stack.length > taken) {
        const node = stack.pop();
        for (const link of (node && links.get(node)) ?? []) putBack(link);
      }
    },
  };
}

function best(demand: Demand, pool: Pool, spot: boolean, rings: ReadonlyMap<string, Link>): ScaledNode | undefined {
  let found: ScaledNode | undefined;
  for (const instanceType of demand.instanceTypes) {
    const node = rings.get(wishKey(demand, pool, instanceType, spot))?.after.node;
    // Among equally ready ones the earlier type stays.
    if (node !== undefined && (found === undefined || phaseRank(node) < phaseRank(found))) found = node;
  }
  return found;
}

/** Tells which nodes at least one of the demands could be given. */
export function indexWishes(
  wishes: Iterable<{ readonly demand: Demand; readonly spots: readonly boolean[] }>,
  pools: ReadonlyMap<string, Pool>,
): (node: ScaledNode) => boolean {
  const wanted = new Set<string>();
  for (const { demand, spots } of wishes) {
    const pool = pools.get(demand.pool);
    if (pool === undefined) continue;
    for (const instanceType of demand.instanceTypes)
      for (const spot of spots) wanted.add(wishKey(demand, pool, instanceType, spot));
  }
  return (node) => {
    const pool = pools.get(node.spec.pool);
    return pool !== undefined && keysOf(node, pool).some((key) => wanted.has(key));
  };
}

/** All that a demand may ask for that the node is. */
function keysOf({ spec }: ScaledNode, pool: Pool): readonly string[] {
  const { instanceType, spot, zone } = spec;
  const kind = ringKey(pool, instanceType, spot, spec);
  return zone === undefined ? [kind] : [kind, inZone(kind, zone)];
}

function wishKey(demand: Demand, pool: Pool, instanceType: string, spot: boolean): string {
  const { gpus, privateIpOnly, zone } = demand;
  const kind = ringKey(pool, instanceType, spot, { gpus, privateIpOnly, volumeGib: volumeFor(demand, pool) });
  return zone === undefined ? kind : inZone(kind, zone);
}

type Matching = {
  readonly gpus: number;
  readonly privateIpOnly: boolean;
  readonly volumeGib: number | undefined;
};

function ringKey({ policy, fixedSizeVolumes }: Pool, instanceType: string, spot: boolean, matching: Matching): string {
  const volume = fixedSizeVolumes ? (matching.volumeGib ?? "default") : "any";
  return `${policy.name}\n${instanceType}\n${spot}\n${matching.gpus}\n${matching.privateIpOnly}\n${volume}`;
}

function inZone(key: string, zone: string): string {
  return `${key}\n${zone}`;
}

function ringOf(rings: Map<string, Link>, key: string): Link {
  const known = rings.get(key);
  if (known !== undefined) return known;
  const ring = new Link(undefined);
  rings.set(key, ring);
  return ring;
}

function append(ring: Link, node: ScaledNode): Link {
  const link = new Link(node);
  link.before = ring.before;
  link.after = ring;
  putBack(link);
  return link;
}

function takeOut(link: Link): void {
  link.before.after = link.after;
  link.after.before = link.before;
}

function putBack(link: Link): void {
  link.before.after = link;
  link.after.before = link;
}
