import { buildAmountsKey, canFit, type Amounts } from "@muster/resources";
import type { PoolNeed } from "../ledger/reservation.ts";
import { placeShared, type Room } from "../ledger/room.ts";

/** Parts of one pool with equal requests. */
export type PartDemand = {
  readonly requests: Amounts;
  readonly requested: number;
  /** Number of these parts that fit now beside the other parts. */
  readonly fitting: number;
  /** Why the next part does not fit; undefined: all parts fit. */
  readonly shortage: PartShortage | undefined;
};

export type PartShortage = {
  /** The node with the smallest shortage; undefined: no node can be granted in parts now. */
  readonly node: string | undefined;
  /** Parts of the need that fit on the node and are counted as placed there. */
  readonly placed: number;
  /** The resources that are short on the node. */
  readonly resources: readonly ResourceShortage[];
};

/** `free` remains on the node beside the parts that fit there. */
export type ResourceShortage = { readonly resource: string; readonly requested: number; readonly free: number };

/** Groups the parts of a need by their requests, the largest first, with the shortage of each group in the room. */
export function explainParts({ shared }: Pick<PoolNeed, "shared">, room: Room): readonly PartDemand[] {
  const { nodes, room: left } = placeShared(room, shared);
  const kinds = new Map<string, { requests: Amounts; requested: number; fitting: number }>();
  const placed = new Map<string, number>();
  for (const [index, requests] of shared.entries()) {
    const node = nodes[index];
    const key = buildAmountsKey(requests);
    const kind = kinds.get(key) ?? { requests, requested: 0, fitting: 0 };
    kinds.set(key, kind);
    kind.requested += 1;
    if (node === undefined) continue;
    kind.fitting += 1;
    placed.set(node, (placed.get(node) ?? 0) + 1);
  }
  return [...kinds.values()].map((kind) => ({
    ...kind,
    shortage: kind.fitting === kind.requested ? undefined : findShortage(kind.requests, left, placed),
  }));
}

/** Selects the node with the fewest short resources, then the smallest missing fraction of the requests, then the first name. */
function findShortage(requests: Amounts, room: Room, placed: ReadonlyMap<string, number>): PartShortage {
  let best:
    { readonly node: string; readonly lack: number; readonly resources: readonly ResourceShortage[] } | undefined;
  for (const [node, free] of freeByNode(room)) {
    if (canFit(requests, free)) continue;
    const resources = shortResources(requests, free);
    const lack = resources.reduce((sum, each) => sum + (each.requested - each.free) / each.requested, 0);
    const order =
      best === undefined
        ? -1
        : resources.length - best.resources.length || lack - best.lack || (node < best.node ? -1 : 1);
    if (order < 0) best = { node, lack, resources };
  }
  const { node, resources = [] } = best ?? {};
  return { node, placed: node === undefined ? 0 : (placed.get(node) ?? 0), resources };
}

function* freeByNode({ free, partial }: Room): Generator<readonly [string, Amounts]> {
  for (const [{ node }, amounts] of partial.entries()) yield [node, amounts.free];
  for (const [{ node }, allocatable] of free.entries()) if (allocatable !== undefined) yield [node, allocatable];
}

function shortResources(requests: Amounts, free: Amounts): readonly ResourceShortage[] {
  const withPod = new Map(requests).set("pods", 1 + (requests.get("pods") ?? 0));
  return [...withPod]
    .map(([resource, requested]) => ({ resource, requested, free: free.get(resource) ?? 0 }))
    .filter((each) => each.free < each.requested);
}
