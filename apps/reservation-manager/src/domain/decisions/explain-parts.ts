import { buildAmountsKey, canFit, type Amounts } from "@muster/resources";
import type { PoolNeed } from "../ledger/reservation.ts";
import { placeShared, type Room } from "../ledger/room.ts";

/** Parts with the same requests that a reservation needs of a pool. */
export type PartDemand = {
  readonly requests: Amounts;
  readonly requested: number;
  /** Number of them that fit now beside the other parts. */
  readonly fitting: number;
  /** Why the next one does not fit; undefined: all fit. */
  readonly shortage: PartShortage | undefined;
};

export type PartShortage = {
  /** The node that lacks least; undefined: no node can be granted in parts now. */
  readonly node: string | undefined;
  /** Parts of the need that fit on the node and are counted as placed there. */
  readonly placed: number;
  /** The resources that are short on the node. */
  readonly resources: readonly ResourceShortage[];
};

/** `free` is left on the node beside the parts that fit there. */
export type ResourceShortage = { readonly resource: string; readonly requested: number; readonly free: number };

/** The parts of a need by their requests, the largest first, and their shortage in the room. */
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

/** The node on which fewest resources are short, then the one that lacks the smallest fraction of the requests; ties by name. */
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
