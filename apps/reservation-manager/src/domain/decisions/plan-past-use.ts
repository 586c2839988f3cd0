import type { LedgerEvent } from "../ledger/ledger.ts";
import { getForest, isBroken, type QueueForest, type QueueNode } from "../ledger/queue-forest.ts";
import { NO_PAIRS, type Queues } from "../ledger/queue.ts";
import { toMillionths, computeShare } from "../ledger/share.ts";
import type { World } from "../ledger/world.ts";
import { MAX_CHANGE_BYTES } from "./plan-queue-changes.ts";
import { buildQuotaWorld } from "./queue-heads.ts";

/** Counts per half-life: 2% of the past decays between two of them. */
const COUNTS_PER_HALF_LIFE = 32;
const MIN_INTERVAL_MS = 1000;
/** Limit of queues per count, so that it fits into a log entry; the queues with the largest past shares are counted. */
export const MAX_COUNTED_QUEUES = 4000;
/** Maximum counted share, above any share that a queue can have for long. A queue that borrows although its tree can lend nothing has an infinite share. */
const MAX_MILLIONTHS = 1_000_000_000;

export type PastUsePlan = {
  readonly events: readonly LedgerEvent[];
  /** When the next count is due; undefined: no queue has a half-life. */
  readonly againAtMs: number | undefined;
};

/**
 * Adds current borrowing to past borrowing, for queues below one with a half-life: past · 2^(-t/h) + share · (1 - 2^(-t/h)) after the time t, as the fair-share
 * usage of Slurm decays. Changes of a share between two counts are not measured. After a pause, two intervals of the current share are added, and the pause
 * still decays the past.
 */
export function planPastUse(world: World, nowMs: number): PastUsePlan {
  const events: LedgerEvent[] = [];
  let againAtMs: number | undefined;
  let bytes = 0;
  for (const { node, halfLifeMs } of parentsWithPast(world.ledger.queues)) {
    const known = world.ledger.pastUse.get(node.queue.name);
    const intervalMs = Math.max(MIN_INTERVAL_MS, halfLifeMs / COUNTS_PER_HALF_LIFE);
    // A time far in the future comes from a wrong clock, so the next count does not wait for it.
    const countedMs = known === undefined || known.atMs > nowMs + intervalMs ? nowMs - intervalMs : known.atMs;
    const dueMs = countedMs + intervalMs;
    againAtMs = Math.min(againAtMs ?? Infinity, dueMs > nowMs ? dueMs : nowMs + intervalMs);
    if (dueMs > nowMs) continue;
    const passedMs = nowMs - countedMs;
    const kept = 2 ** (-passedMs / halfLifeMs);
    const added = 1 - 2 ** (-Math.min(passedMs, 2 * intervalMs) / halfLifeMs);
    const shares = countShares(node, world, (name, share) => (known?.shares.get(name) ?? 0) * kept + share * added);
    if (shares.size === 0 && known === undefined) continue;
    for (const name of shares.keys()) bytes += name.length + 10;
    if (events.length > 0 && bytes > MAX_CHANGE_BYTES) return { events, againAtMs: nowMs };
    events.push({ kind: "pastUseCounted", parent: node.queue.name, shares, atMs: nowMs });
  }
  return { events, againAtMs };
}

function countShares(
  { children }: QueueNode,
  world: World,
  count: (name: string, share: number) => number,
): ReadonlyMap<string, number> {
  const quotas = buildQuotaWorld(world);
  const counted: [name: string, share: number][] = [];
  for (const child of children) {
    const { name } = child.queue;
    const share = toMillionths(computeShare(child, quotas.use.get(name) ?? NO_PAIRS, quotas));
    const past = Math.floor(count(name, Math.min(share, MAX_MILLIONTHS)));
    if (past > 0) counted.push([name, past]);
  }
  if (counted.length > MAX_COUNTED_QUEUES) counted.sort(([, a], [, b]) => b - a);
  return new Map(counted.slice(0, MAX_COUNTED_QUEUES));
}

type ParentWithPast = { readonly node: QueueNode; readonly halfLifeMs: number };

const parents = new WeakMap<QueueForest, readonly ParentWithPast[]>();

function parentsWithPast(queues: Queues): readonly ParentWithPast[] {
  const forest = getForest(queues);
  const known = parents.get(forest);
  if (known !== undefined) return known;
  const found = [...forest.values()].flatMap((node): ParentWithPast[] => {
    const { pastUseHalfLifeMs: halfLifeMs } = node.queue;
    return halfLifeMs === undefined || node.children.length === 0 || isBroken(node) ? [] : [{ node, halfLifeMs }];
  });
  parents.set(forest, found);
  return found;
}
