import type { Acceptance } from "./acceptance.ts";
import type { Demand } from "./demand.ts";
import { compareNodes, getPhaseRank, listSpotChoices, findVolumeGib, type ComputedNode, type Pool } from "./fit.ts";

/** Nodes without a binding, indexed by the fields that must match. The cost of taking one and returning it does not depend on their number. */
export type FreeNodes = {
  /**
   * Takes the best suitable node of the first kind (spot or not) that has one. Among several types it prefers the node that is ready sooner, then the preferred
   * type. `accepted` are the kinds of `Acceptance` from which to take.
   */
  take(demand: Demand, accepted: ReadonlySet<string>): ComputedNode | undefined;
  /** Takes this node, unless it is already taken. */
  withhold(node: ComputedNode): void;
  /** Counts the taken nodes. */
  taken(): number;
  /** Returns the latest taken nodes, down to this count. */
  rewind(taken: number): void;
};

/**
 * One node in a ring of equally suitable ones, the best first; the first link of a ring has no node. A removed link keeps its neighbours, so that it can be
 * reinserted in the reverse order.
 */
class Link {
  readonly node: ComputedNode | undefined;
  before: Link = this;
  after: Link = this;

  constructor(node: ComputedNode | undefined) {
    this.node = node;
  }
}

/** Indexes nodes, which must be in the order of `compareNodes`; omits nodes of unknown pools. */
export function indexFreeNodes(
  nodes: readonly ComputedNode[],
  pools: ReadonlyMap<string, Pool>,
  acceptance: Acceptance,
): FreeNodes {
  const rings = new Map<string, Link>();
  const links = new Map<ComputedNode, readonly Link[]>();
  const stack: ComputedNode[] = [];
  const gone = new Set<ComputedNode>();
  const withhold = (node: ComputedNode): void => {
    if (gone.has(node)) return;
    for (const link of links.get(node) ?? []) unlink(link);
    gone.add(node);
    stack.push(node);
  };
  for (const node of nodes) {
    const pool = pools.get(node.spec.pool);
    if (pool === undefined) continue;
    links.set(
      node,
      listKeys(node, pool, acceptance).map((key) => append(ensureRing(rings, key), node)),
    );
  }
  return {
    take: (demand, accepted) => {
      const pool = pools.get(demand.pool);
      if (pool === undefined) return undefined;
      const kinds = sharings(demand).flatMap((isShared) => listSpotChoices(demand).map((spot) => ({ spot, isShared })));
      for (const kind of kinds) {
        const node = best(demand, pool, { ...kind, accepted }, rings);
        if (node === undefined) continue;
        withhold(node);
        return node;
      }
      return undefined;
    },
    withhold,
    taken: () => stack.length,
    rewind: (taken) => {
      while (stack.length > taken) {
        const node = stack.pop();
        if (node === undefined) continue;
        gone.delete(node);
        for (const link of links.get(node) ?? []) relink(link);
      }
    },
  };
}

/** Returns whether nodes with pods also suit; empty ones come first. */
function sharings({ needsEmptyNode }: Demand): readonly boolean[] {
  return needsEmptyNode === true ? [false] : [false, true];
}

type Kind = { readonly spot: boolean; readonly isShared: boolean };

function best(
  demand: Demand,
  pool: Pool,
  { accepted, ...kind }: Kind & { readonly accepted: ReadonlySet<string> },
  rings: ReadonlyMap<string, Link>,
): ComputedNode | undefined {
  let found: ComputedNode | undefined;
  for (const instanceType of demand.instanceTypes) {
    const key = demandKey(demand, pool, instanceType, kind);
    const first = [...accepted].flatMap((of) => rings.get(ofKind(key, of))?.after.node ?? []).sort(compareNodes)[0];
    // Among equally ready nodes the earlier type stays.
    if (first !== undefined && (found === undefined || getPhaseRank(first) < getPhaseRank(found))) found = first;
  }
  return found;
}

/** Returns a function that decides whether any of the demands could use a node. */
export function indexDemands(
  demands: Iterable<Demand>,
  pools: ReadonlyMap<string, Pool>,
  acceptance: Acceptance,
): (node: ComputedNode) => boolean {
  const wanted = new Set<string>();
  for (const demand of demands) {
    const pool = pools.get(demand.pool);
    if (pool === undefined) continue;
    const kinds = acceptance.kindsFor(demand, NO_CLASSES).flatMap((accepted) => [...accepted]);
    const keys = demand.instanceTypes.flatMap((instanceType) =>
      listSpotChoices(demand).map((spot) => demandKey(demand, pool, instanceType, { spot, isShared: false })),
    );
    for (const key of keys) for (const kind of kinds) wanted.add(ofKind(key, kind));
  }
  return (node) => {
    const pool = pools.get(node.spec.pool);
    return pool !== undefined && listKeys(node, pool, acceptance).some((key) => wanted.has(key));
  };
}

/** Returns the keys of all requests that the node could serve. */
function listKeys(node: ComputedNode, pool: Pool, acceptance: Acceptance): readonly string[] {
  const { spec, sharedWith } = node;
  const { instanceType, spot, zone } = spec;
  const kind = ringKey(pool, instanceType, { spot, isShared: sharedWith !== undefined }, spec);
  const keys = zone === undefined ? [kind] : [kind, inZone(kind, zone)];
  return keys.map((key) => ofKind(key, acceptance.kindOf(node)));
}

function demandKey(demand: Demand, pool: Pool, instanceType: string, wanted: Kind): string {
  const { gpus, privateIpOnly, zone } = demand;
  const kind = ringKey(pool, instanceType, wanted, { gpus, privateIpOnly, volumeGib: findVolumeGib(demand, pool) });
  return zone === undefined ? kind : inZone(kind, zone);
}

type Matching = {
  readonly gpus: number;
  readonly privateIpOnly: boolean;
  readonly volumeGib: number | undefined;
};

function ringKey({ policy, fixedSizeVolumes }: Pool, instanceType: string, kind: Kind, matching: Matching): string {
  const volume = fixedSizeVolumes ? (matching.volumeGib ?? "default") : "any";
  return `${policy.name}\n${instanceType}\n${kind.spot}\n${kind.isShared}\n${matching.gpus}\n${matching.privateIpOnly}\n${volume}`;
}

function inZone(key: string, zone: string): string {
  return `${key}\n${zone}`;
}

function ofKind(key: string, kind: string): string {
  return `${key}\n${kind}`;
}

const NO_CLASSES: ReadonlySet<string> = new Set();

function ensureRing(rings: Map<string, Link>, key: string): Link {
  const known = rings.get(key);
  if (known !== undefined) return known;
  const ring = new Link(undefined);
  rings.set(key, ring);
  return ring;
}

function append(ring: Link, node: ComputedNode): Link {
  const link = new Link(node);
  link.before = ring.before;
  link.after = ring;
  relink(link);
  return link;
}

function unlink(link: Link): void {
  link.before.after = link.after;
  link.after.before = link.before;
}

function relink(link: Link): void {
  link.before.after = link;
  link.after.before = link;
}
