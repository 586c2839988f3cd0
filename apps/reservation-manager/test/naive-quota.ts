import { parsePair, type PairAmounts, type Queue, type Quota } from "../src/domain/ledger/queue.ts";

/** The input of every decision about quotas. The functions below compute their results from it alone, without an index or a cache. */
export type Forest = {
  readonly queues: readonly Queue[];
  /** The amounts that the grants of each queue hold, by its name, without those of the queues below it. */
  readonly own: ReadonlyMap<string, PairAmounts>;
  /** The sum of the allocatable amounts of each pool's nodes. */
  readonly allocatable: PairAmounts;
  /** By queue, the addition to its share in the order, in millionths. Absent: none. */
  readonly past?: ReadonlyMap<string, number>;
  /** Lists the waiting requests whose machines exist, and the granted ones, for `judgedFor`. Absent: none. */
  readonly listWaiting?: () => readonly QueuedRequest[];
  readonly granted?: readonly GrantedRequest[];
};

export type GrantedRequest = QueuedRequest & { readonly grantedAtMs: number };

export type QueuedRequest = {
  readonly sequence: number;
  /** Undefined: no quota limits it. */
  readonly queue?: string;
  readonly ask: PairAmounts;
  readonly priority: number;
  readonly createdAtMs: number;
  /** Index in the preference of the request; absent: the request has no other option. Options of one request have the same sequence. */
  readonly option?: number;
};

/** A fraction; a denominator of 0 stands for infinity. */
export type Share = {
  readonly numerator: bigint;
  readonly denominator: bigint;
  /** The queue has the weight 0 and borrows: it comes after every queue that has a weight. */
  readonly isLast: boolean;
};

/** Limited only in pools and queues that name them. */
const OPTIONAL_RESOURCES = ["pods", "ephemeral-storage"];

/** Lists the queue, its parent and so on up to the root; undefined if a parent is missing or the parents form a cycle. */
export function pathOf({ queues }: Forest, name: string): readonly Queue[] | undefined {
  const path: Queue[] = [];
  for (let next: string | undefined = name; next !== undefined;) {
    const queue = queues.find((other) => other.name === next);
    if (queue === undefined || path.includes(queue)) return undefined;
    path.push(queue);
    next = queue.parent;
  }
  return path;
}

/** Returns why the queue admits nothing; undefined: it may admit work. */
export function problemOf(forest: Forest, name: string): "QUEUE_UNKNOWN" | "QUEUE_HELD" | undefined {
  const queue = forest.queues.find((other) => other.name === name);
  if (queue === undefined) return "QUEUE_UNKNOWN";
  const path = pathOf(forest, name);
  const mayAdmit =
    path?.every(({ problem, stopPolicy }) => problem === undefined && stopPolicy === "None") === true &&
    isLeaf(forest, name);
  return mayAdmit ? undefined : "QUEUE_HELD";
}

export function isLeaf({ queues }: Forest, name: string): boolean {
  return queues.every(({ parent }) => parent !== name);
}

/** Returns whether a limit applies to the pair in the queue: it does not if neither the queue nor one above it names the pair. */
export function isLimited(forest: Forest, name: string, pair: string): boolean {
  if (!OPTIONAL_RESOURCES.includes(parsePair(pair).resource)) return true;
  return pathOf(forest, name)?.some(({ quotas }) => quotas.has(pair)) === true;
}

export function nominalOf(forest: Forest, name: string, pair: string): bigint {
  const { quotas, parent } = queueOf(forest, name);
  const quota = quotas.get(pair);
  if (quota !== undefined) return BigInt(quota.nominal);
  const isRootWithout = parent === undefined && quotas.size === 0 && !isNamed(forest, name, pair);
  return isRootWithout && hasLeafWithout(forest, name) ? BigInt(forest.allocatable.get(pair) ?? 0) : 0n;
}

/** total(n) = nominal + sum over children of (total(c) - guaranteed(c)) */
export function totalOf(forest: Forest, name: string, pair: string): bigint {
  const lent = childrenOf(forest, name).map(
    (child) => totalOf(forest, child, pair) - guaranteedOf(forest, child, pair),
  );
  return nominalOf(forest, name, pair) + sum(lent);
}

/** guaranteed(n) = max(0, total - lendingLimit), 0 without a limit */
export function guaranteedOf(forest: Forest, name: string, pair: string): bigint {
  const limit = quotaOf(forest, name, pair)?.lendingLimit;
  return limit === undefined ? 0n : max(0n, totalOf(forest, name, pair) - BigInt(limit));
}

/** used(n) = own + sum over children of up(c); pairs without a limit are not counted. */
export function usedOf(forest: Forest, name: string, pair: string): bigint {
  const own = isLimited(forest, name, pair) ? BigInt(forest.own.get(name)?.get(pair) ?? 0) : 0n;
  return own + sum(childrenOf(forest, name).map((child) => countedByParent(forest, child, pair)));
}

/** up(n) = max(0, used - guaranteed) */
export function countedByParent(forest: Forest, name: string, pair: string): bigint {
  return max(0n, usedOf(forest, name, pair) - guaranteedOf(forest, name, pair));
}

/**
 * free(root) = total - used; free(n) = max(0, guaranteed - used) + min(free(parent), total - guaranteed - up + borrowingLimit). Without a limit the second term
 * is free(parent). Negative where the tree uses more than its total.
 */
export function freeOf(forest: Forest, name: string, pair: string): bigint {
  const { parent } = queueOf(forest, name);
  const total = totalOf(forest, name, pair);
  const used = usedOf(forest, name, pair);
  if (parent === undefined) return total - used;
  const guaranteed = guaranteedOf(forest, name, pair);
  const above = freeOf(forest, parent, pair);
  const limit = quotaOf(forest, name, pair)?.borrowingLimit;
  const fromAbove =
    limit === undefined ? above : min(above, total - guaranteed - countedByParent(forest, name, pair) + BigInt(limit));
  return max(0n, guaranteed - used) + fromAbove;
}

/** The maximum of the queue: its free amount while no queue uses anything. */
export function maxOf(forest: Forest, name: string, pair: string): bigint {
  return freeOf({ ...forest, own: new Map() }, name, pair);
}

/** Returns true if the queue names the pair or no pair at all, or if the pair has no limit. */
export function mayUse(forest: Forest, name: string, pair: string): boolean {
  const { quotas } = queueOf(forest, name);
  return quotas.size === 0 || quotas.has(pair) || OPTIONAL_RESOURCES.includes(parsePair(pair).resource);
}

export function fits(forest: Forest, name: string, ask: PairAmounts): boolean {
  return [...ask].every(
    ([pair, amount]) =>
      !isLimited(forest, name, pair) || (mayUse(forest, name, pair) && BigInt(amount) <= freeOf(forest, name, pair)),
  );
}

export function canEverFit(forest: Forest, name: string, ask: PairAmounts): boolean {
  return fits({ ...forest, own: new Map() }, name, ask);
}

/** Returns the forest after a grant of the request in the queue. */
export function withUse(forest: Forest, name: string, ask: PairAmounts): Forest {
  const own = new Map(forest.own.get(name));
  for (const [pair, amount] of ask) own.set(pair, (own.get(pair) ?? 0) + amount);
  return { ...forest, own: new Map([...forest.own, [name, own]]) };
}

/**
 * Returns how many levels above the queue the first total is that covers the use after the grant: 0 is the queue's own. The pair with the highest level
 * decides. If not even the root's total covers it, the level is the length of the path.
 */
export function levelOf(forest: Forest, name: string, ask: PairAmounts): number {
  const after = withUse(forest, name, ask);
  const path = pathOf(after, name) ?? [];
  const levels = [...ask.keys()]
    .filter((pair) => isLimited(after, name, pair))
    .map((pair) => path.findIndex((queue) => usedOf(after, queue.name, pair) <= totalOf(after, queue.name, pair)))
    .map((level) => (level === -1 ? path.length : level));
  return Math.max(0, ...levels);
}

/**
 * The dominant resource share: the queue's use beyond its total, divided by its parent's maximum and by its weight, for the resource with the largest share. A
 * root has the share 0. For the share after a grant, pass the forest that `withUse` returns.
 */
export function shareOf(forest: Forest, name: string): Share {
  const { parent, weightMilli } = queueOf(forest, name);
  const none: Share = { numerator: 0n, denominator: 1n, isLast: false };
  if (parent === undefined) return none;
  const pairs = pairsOf(forest).filter((pair) => isLimited(forest, name, pair));
  const parts = [...new Set(pairs.map((pair) => parsePair(pair).resource))].map((resource): Share => {
    const inPools = pairs.filter((pair) => parsePair(pair).resource === resource);
    const borrowed = sum(inPools.map((pair) => borrowedOf(forest, name, pair)));
    const lendable = sum(inPools.map((pair) => maxOf(forest, parent, pair)));
    if (borrowed === 0n) return none;
    if (weightMilli === 0) return { numerator: borrowed, denominator: lendable, isLast: true };
    return { numerator: borrowed * 1000n, denominator: lendable * BigInt(weightMilli), isLast: false };
  });
  return parts.reduce((largest, part) => (compareShares(part, largest) > 0 ? part : largest), none);
}

export function borrowedOf(forest: Forest, name: string, pair: string): bigint {
  return max(0n, usedOf(forest, name, pair) - totalOf(forest, name, pair));
}

export function compareShares(a: Share, b: Share): number {
  if (a.isLast !== b.isLast) return a.isLast ? 1 : -1;
  return compare(a.numerator * b.denominator, b.numerator * a.denominator);
}

/** Adds past borrowing; an infinite share stays infinite. */
function withPast({ numerator, denominator, isLast }: Share, millionths: number): Share {
  const million = 1_000_000n;
  return {
    numerator: numerator * million + BigInt(millionths) * denominator,
    denominator: denominator * million,
    isLast,
  };
}

/** Compares by priority, then age, then arrival, then preference. */
export function compareRequests(a: QueuedRequest, b: QueuedRequest): number {
  const byArrival = a.createdAtMs - b.createdAtMs || a.sequence - b.sequence;
  return b.priority - a.priority || byArrival || (a.option ?? 0) - (b.option ?? 0);
}

/**
 * Lists the requests of the queue that may be granted as soon as they fit, in order. The list is empty if the queue admits nothing. It omits requests that can
 * never fit. A StrictFIFO queue lists only its first request, with all options.
 */
export function lineOf(forest: Forest, name: string, waiting: readonly QueuedRequest[]): readonly QueuedRequest[] {
  if (problemOf(forest, name) !== undefined) return [];
  const line = waiting
    .filter(({ queue, ask }) => queue === name && canEverFit(forest, name, ask))
    .sort(compareRequests);
  const isFirst = ({ sequence }: QueuedRequest): boolean => sequence === line[0]?.sequence;
  return queueOf(forest, name).strategy === "StrictFIFO" ? line.filter(isFirst) : line;
}

/**
 * The forest in which quota and share of a request are judged. If it is the first of its queue that the queue's own quota covers, and work that passed it uses
 * this quota, the queue counts as using no more than its quota with the request: the other work borrows.
 */
export function judgedFor(forest: Forest, { queue, ask, ...request }: QueuedRequest): Forest {
  if (queue === undefined || problemOf(forest, queue) !== undefined) return forest;
  const isCovered = (amounts: PairAmounts): boolean =>
    [...amounts].every(
      ([pair, amount]) => !isLimited(forest, queue, pair) || BigInt(amount) <= totalOf(forest, queue, pair),
    );
  const passing = (forest.granted ?? []).filter(
    (each) =>
      each.queue === queue &&
      each.grantedAtMs > request.createdAtMs &&
      compareRequests({ ...request, ask }, each) < 0 &&
      each.sequence !== request.sequence,
  );
  if (passing.length === 0 || !isCovered(ask)) return forest;
  const [head] = (forest.listWaiting?.() ?? [])
    .filter((each) => each.queue === queue && isCovered(each.ask))
    .sort(compareRequests);
  if (head?.sequence !== request.sequence) return forest;
  const own = new Map(forest.own.get(queue));
  for (const [pair, amount] of ask) {
    if (!isLimited(forest, queue, pair)) continue;
    const excess = usedOf(forest, queue, pair) + BigInt(amount) - totalOf(forest, queue, pair);
    if (excess <= 0n) continue;
    if (sum(passing.map((each) => BigInt(each.ask.get(pair) ?? 0))) < excess) return forest;
    own.set(pair, (own.get(pair) ?? 0) - Number(excess));
  }
  return { ...forest, own: new Map([...forest.own, [queue, own]]) };
}

/** As `levelOf`, for a waiting request. */
export function levelFor(forest: Forest, request: QueuedRequest): number {
  return levelOf(judgedFor(forest, request), request.queue ?? "", request.ask);
}

/** The forest after the grant, in which the request is compared with those of other queues. */
function judgedAfter(forest: Forest, request: QueuedRequest): Forest {
  return withUse(judgedFor(forest, request), request.queue ?? "", request.ask);
}

/**
 * Returns the request that the queue's own quota is kept for: the first that does not fit because others borrow. It would not borrow in the future forest,
 * after all leaving work has gone.
 */
export function keptOf(
  forest: Forest,
  name: string,
  waiting: readonly QueuedRequest[],
  future = forest,
): QueuedRequest | undefined {
  return lineOf(forest, name, waiting).find(
    (request) => levelFor(future, request) === 0 && !fits(forest, name, request.ask),
  );
}

/** The forest for requests that would borrow: quota kept for its owners counts as used, except that kept for the request itself. */
export function withKept(forest: Forest, waiting: readonly QueuedRequest[], own?: QueuedRequest): Forest {
  const kept = forest.queues.flatMap(({ name }) => {
    const request = keptOf(forest, name, waiting);
    return request === undefined || request.sequence === own?.sequence ? [] : [{ name, ask: request.ask }];
  });
  return kept.reduce((seen, { name, ask }) => withUse(seen, name, ask), forest);
}

/**
 * The first request of the queue's line that fits, with the nearest quota; one that would borrow also has to fit beside what is kept, for the requests of
 * `owners`.
 */
export function candidateOf(
  forest: Forest,
  name: string,
  waiting: readonly QueuedRequest[],
  owners = waiting,
): QueuedRequest | undefined {
  const fitting = lineOf(forest, name, waiting).filter(
    (request) =>
      fits(forest, name, request.ask) &&
      (levelFor(forest, request) === 0 || fits(withKept(forest, owners, request), name, request.ask)),
  );
  const [first, ...others] = fitting.filter(({ sequence }) => sequence === fitting[0]?.sequence);
  if (first === undefined) return undefined;
  const nearer = (a: QueuedRequest, b: QueuedRequest): QueuedRequest =>
    levelFor(forest, b) < levelFor(forest, a) ? b : a;
  return others.reduce(nearer, first);
}

/** Returns the next grant: the best candidate of all queues and of the requests without a queue. */
export function findNextGrant(forest: Forest, waiting: readonly QueuedRequest[]): QueuedRequest | undefined {
  const candidates = forest.queues.flatMap(({ name }) => candidateOf(forest, name, waiting) ?? []);
  const free = waiting.filter(({ queue }) => queue === undefined).sort(compareRequests);
  return firstOf(forest, [...candidates, ...free.slice(0, 1)]);
}

/**
 * Returns the first candidate in order, given at most one per queue. Trees are compared by priority, age and arrival; requests without a queue count as another
 * tree.
 */
export function firstOf(forest: Forest, candidates: readonly QueuedRequest[]): QueuedRequest | undefined {
  const roots = forest.queues.filter(({ parent }) => parent === undefined);
  const winners = roots.flatMap(({ name }) => winnerOf(forest, name, candidates) ?? []);
  return [...winners, ...candidates.filter(({ queue }) => queue === undefined)]
    .sort((a, b) => Number(borrowsLast(forest, a)) - Number(borrowsLast(forest, b)) || compareRequests(a, b))
    .at(0);
}

/** Returns whether a queue of weight 0 on the path to the root borrows for the request. */
function borrowsLast(forest: Forest, request: QueuedRequest): boolean {
  const { queue } = request;
  if (queue === undefined) return false;
  const after = judgedAfter(forest, request);
  return pathOf(forest, queue)?.some(({ name }) => shareOf(after, name).isLast) === true;
}

/**
 * Returns the best candidate at or below the queue. Winners of its children are compared by the level of the quota that suffices, the child's share with past
 * use, priority, age and arrival. Requests that borrow for a queue of weight 0 come last.
 */
function winnerOf(forest: Forest, name: string, candidates: readonly QueuedRequest[]): QueuedRequest | undefined {
  if (isLeaf(forest, name)) return candidates.find(({ queue }) => queue === name);
  return childrenOf(forest, name)
    .flatMap((child) => {
      const request = winnerOf(forest, child, candidates);
      if (request === undefined) return [];
      const { queue = "" } = request;
      const after = judgedAfter(forest, request);
      const depth = pathOf(forest, queue)?.findIndex((each) => each.name === child) ?? 0;
      const level = Math.max(0, levelFor(forest, request) - depth);
      const share = withPast(shareOf(after, child), forest.past?.get(child) ?? 0);
      return [{ request, isLast: borrowsLast(forest, request), level, share }];
    })
    .sort(
      (a, b) =>
        Number(a.isLast) - Number(b.isLast) ||
        a.level - b.level ||
        compareShares(a.share, b.share) ||
        compareRequests(a.request, b.request),
    )
    .at(0)?.request;
}

function queueOf({ queues }: Forest, name: string): Queue {
  const queue = queues.find((other) => other.name === name);
  if (queue === undefined) throw new Error(`no queue ${name}`);
  return queue;
}

function quotaOf(forest: Forest, name: string, pair: string): Quota | undefined {
  return queueOf(forest, name).quotas.get(pair);
}

function childrenOf({ queues }: Forest, name: string): readonly string[] {
  return queues.filter(({ parent }) => parent === name).map((queue) => queue.name);
}

/** Returns whether a leaf at or below the queue has no quotas. Other leaves use only the pairs that they name. */
function hasLeafWithout(forest: Forest, name: string): boolean {
  const children = childrenOf(forest, name);
  if (children.length === 0) return queueOf(forest, name).quotas.size === 0;
  return children.some((child) => hasLeafWithout(forest, child));
}

/** Returns whether some queue of the tree names the pair. */
function isNamed(forest: Forest, name: string, pair: string): boolean {
  const root = pathOf(forest, name)?.at(-1);
  if (root === undefined) throw new Error(`queue ${name} is in no tree`);
  return forest.queues.some(({ name: other, quotas }) => quotas.has(pair) && pathOf(forest, other)?.at(-1) === root);
}

/** Lists every pair that any part of the forest names. */
function pairsOf({ queues, own, allocatable }: Forest): readonly string[] {
  const named = [...queues.map(({ quotas }) => quotas), ...own.values(), allocatable];
  return [...new Set(named.flatMap((pairs) => [...pairs.keys()]))];
}

function sum(amounts: readonly bigint[]): bigint {
  return amounts.reduce((total, amount) => total + amount, 0n);
}

function max(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}

function min(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}

function compare(a: bigint, b: bigint): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
