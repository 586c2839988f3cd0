import type { QueueNode } from "./queue-forest.ts";
import type { Queues } from "./queue.ts";
import { compareText, SortedMap } from "./sorted-map.ts";

/** The past borrowing of the queues below one queue. */
export type PastShares = {
  /** Time of the count. */
  readonly atMs: number;
  /** Decayed average of the share by queue, in millionths; queues with 0 are omitted. */
  readonly shares: ReadonlyMap<string, number>;
};

/** By parent queue; only parents with a half-life. */
export type PastUse = SortedMap<string, PastShares>;

export const noPastUse: PastUse = SortedMap.empty(compareText);

/** The addition to the share of the queue when it is compared with the others of its parent, in millionths. */
export function getPastShare({ queue, parent }: QueueNode, pastUse: PastUse): number {
  return parent === undefined ? 0 : (pastUse.get(parent.queue.name)?.shares.get(queue.name) ?? 0);
}

/** Stores a count; a count without shares is dropped. */
export function withPastShares(pastUse: PastUse, parent: string, { atMs, shares }: PastShares): PastUse {
  return shares.size === 0 ? pastUse.delete(parent) : pastUse.set(parent, { atMs, shares });
}

/** Past use after a change of the queues: drops the queues that no longer have a half-life. */
export function keepPastUse(pastUse: PastUse, queues: Queues): PastUse {
  let kept = pastUse;
  for (const name of pastUse.keys()) if (queues.get(name)?.pastUseHalfLifeMs === undefined) kept = kept.delete(name);
  return kept;
}
