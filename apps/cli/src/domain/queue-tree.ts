import type { Queue, QueueAmount } from "../adapters/queue-messages.ts";

/** A queue with its position in its tree. */
export type PlacedQueue = Queue & {
  /** Zero for the root. */
  readonly depth: number;
  /** Names of the queues directly below. */
  readonly children: readonly string[];
  /** The queues from this one to its root. */
  readonly path: readonly Queue[];
};

/** Arranges queues as trees: each queue after its parent, siblings by name. A queue with a missing parent, or in a cycle, is a root. */
export function placeQueues(queues: readonly Queue[]): readonly PlacedQueue[] {
  const byName = new Map(queues.map((queue) => [queue.name, queue]));
  const sorted = [...queues].sort((a, b) => (a.name < b.name ? -1 : 1));
  const isRoot = (queue: Queue): boolean => parentOf(queue, byName) === undefined || isBelowItself(queue, byName);
  const below = new Map<string, Queue[]>();
  for (const queue of sorted) {
    if (isRoot(queue)) continue;
    const parent = queue.parent ?? "";
    below.set(parent, [...(below.get(parent) ?? []), queue]);
  }
  const placed: PlacedQueue[] = [];
  const place = (queue: Queue, above: readonly Queue[]): void => {
    const ofQueue = below.get(queue.name) ?? [];
    const path = [queue, ...above];
    placed.push({ ...queue, depth: above.length, children: ofQueue.map(({ name }) => name), path });
    for (const child of ofQueue) place(child, path);
  };
  for (const queue of sorted) if (isRoot(queue)) place(queue, []);
  return placed;
}

function parentOf({ parent }: Queue, byName: ReadonlyMap<string, Queue>): Queue | undefined {
  return parent === undefined ? undefined : byName.get(parent);
}

function isBelowItself(queue: Queue, byName: ReadonlyMap<string, Queue>): boolean {
  const seen = new Set<string>();
  for (let above = parentOf(queue, byName); above !== undefined; above = parentOf(above, byName)) {
    if (above.name === queue.name) return true;
    if (seen.has(above.name)) return false;
    seen.add(above.name);
  }
  return false;
}

/** Returns the root of the queue's tree. */
export function getRootQueue({ path, name }: Pick<PlacedQueue, "path" | "name">): string {
  return path.at(-1)?.name ?? name;
}

type Pair = Pick<QueueAmount, "pool" | "resource">;

export function findPairAmount(queue: Queue, { pool, resource }: Pair): QueueAmount | undefined {
  return queue.amounts.find((each) => each.pool === pool && each.resource === resource);
}

/** Problems of queues whose quota cannot be known. */
const BROKEN: ReadonlySet<string> = new Set(["PARENT_MISSING", "CYCLE", "UNREADABLE", "INVALID_SPEC", "DELETING"]);

export function isBroken({ problem }: Pick<Queue, "problem">): boolean {
  return BROKEN.has(problem);
}

/** Resources that are limited only if the queue or a queue above it names them. */
const OPTIONAL: ReadonlySet<string> = new Set(["pods", "ephemeral-storage"]);

/**
 * Computes what the queue could use in addition, by the ledger's formula: its unused guarantee, and the free amount of its tree up to its borrowing limit.
 * Undefined if unknown or unlimited.
 */
export function computeAvailable(queue: PlacedQueue, pair: Pair): number | undefined {
  if (isBroken(queue)) return undefined;
  const stated = queue.path.map((each) => findPairAmount(each, pair)?.stated);
  const isOptional = OPTIONAL.has(pair.resource);
  if (isOptional && stated.every((each) => each === undefined)) return undefined;
  if (queue.hasQuotas && !isOptional && stated[0] === undefined) return 0;
  let free = 0;
  for (const each of [...queue.path].reverse()) {
    const amount = findPairAmount(each, pair);
    const { used = 0, quota: total = 0, stated: limits } = amount ?? {};
    if (each === queue.path.at(-1)) {
      // The ledger omits the quota of pools and resources that no queue of the tree names or uses.
      if (amount === undefined && !each.hasQuotas) return undefined;
      free = total - used;
      continue;
    }
    const guaranteed = limits?.lendingLimit === undefined ? 0 : Math.max(0, total - limits.lendingLimit);
    const limit = limits?.borrowingLimit ?? Number.POSITIVE_INFINITY;
    const shared = Math.min(free, total - guaranteed - Math.max(0, used - guaranteed) + limit);
    free = Math.max(0, guaranteed - used) + shared;
  }
  return Math.max(0, free);
}
