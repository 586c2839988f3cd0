import type { Queue, QueueAmount } from "../adapters/queue-messages.ts";

/** A queue at its place in its tree. */
export type PlacedQueue = Queue & {
  /** 0: it is the root. */
  readonly depth: number;
  /** Names of the queues directly below it. */
  readonly children: readonly string[];
  /** From the queue to its root. */
  readonly path: readonly Queue[];
};

/** The trees, each queue after its parent, those with one parent by name. A queue whose parent is missing, or that is below itself, is a root. */
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

/** The root of its tree. */
export function rootOf({ path, name }: Pick<PlacedQueue, "path" | "name">): string {
  return path.at(-1)?.name ?? name;
}

type Pair = Pick<QueueAmount, "pool" | "resource">;

export function amountOfPair(queue: Queue, { pool, resource }: Pair): QueueAmount | undefined {
  return queue.amounts.find((each) => each.pool === pool && each.resource === resource);
}

/** Its quota cannot be known. */
const BROKEN: ReadonlySet<string> = new Set(["PARENT_MISSING", "CYCLE", "UNREADABLE"]);

export function isBroken({ problem }: Pick<Queue, "problem">): boolean {
  return BROKEN.has(problem);
}

/** Limited only where a queue or one above it names them. */
const OPTIONAL: ReadonlySet<string> = new Set(["pods", "ephemeral-storage"]);

/**
 * What the queue could use in addition, by the formula of the ledger: what it guarantees itself and does not use, and of what its tree has free as much as
 * its borrowing limit allows. Undefined: unknown, or not limited.
 */
export function availableOf(queue: PlacedQueue, pair: Pair): number | undefined {
  if (isBroken(queue)) return undefined;
  const stated = queue.path.map((each) => amountOfPair(each, pair)?.stated);
  const isOptional = OPTIONAL.has(pair.resource);
  if (isOptional && stated.every((each) => each === undefined)) return undefined;
  if (queue.hasQuotas && !isOptional && stated[0] === undefined) return 0;
  let free = 0;
  for (const each of [...queue.path].reverse()) {
    const amount = amountOfPair(each, pair);
    const { used = 0, quota: total = 0, stated: limits } = amount ?? {};
    if (each === queue.path.at(-1)) {
      // The ledger reports no quota of the pools for what no queue of the tree names or uses.
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
