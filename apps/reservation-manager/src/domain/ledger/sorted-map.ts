import { ENTRIES_PER_STEP, sortInSteps } from "./sort-in-steps.ts";
import { runToEnd, type Steps } from "./steps.ts";

/**
 * An immutable ordered map: `set` and `delete` return a new map that shares all but O(log n) nodes with the old one. So the ledger on disk and the ledger after
 * pending writes exist side by side. It is a weight-balanced tree, whose stored sizes also answer `rank`.
 */
export class SortedMap<Key, Value> {
  readonly #compare: (a: Key, b: Key) => number;
  readonly #root: Branch<Key, Value> | undefined;

  private constructor(compare: (a: Key, b: Key) => number, root: Branch<Key, Value> | undefined) {
    this.#compare = compare;
    this.#root = root;
  }

  static empty<Key, Value>(compare: (a: Key, b: Key) => number): SortedMap<Key, Value> {
    return new SortedMap<Key, Value>(compare, undefined);
  }

  /** Builds a map of these entries faster than repeated `set`. Of entries with one key the last one counts. */
  static from<Key, Value>(
    compare: (a: Key, b: Key) => number,
    entries: Iterable<readonly [Key, Value]>,
  ): SortedMap<Key, Value> {
    return runToEnd(SortedMap.inSteps(compare, [...entries]));
  }

  /** As `from`, in steps, so that other work continues in between. */
  static *inSteps<Key, Value>(
    compare: (a: Key, b: Key) => number,
    entries: readonly (readonly [Key, Value])[],
  ): Steps<SortedMap<Key, Value>> {
    const sorted = yield* sortInSteps(entries, ([a], [b]) => compare(a, b));
    yield;
    const unique = sorted.filter(([key], index) => {
      const next = sorted[index + 1];
      return next === undefined || compare(key, next[0]) !== 0;
    });
    return new SortedMap(compare, yield* buildInSteps(unique, 0, unique.length));
  }

  get size(): number {
    return sizeOf(this.#root);
  }

  get(key: Key): Value | undefined {
    let at = this.#root;
    while (at !== undefined) {
      const order = this.#compare(key, at.key);
      if (order === 0) return at.value;
      at = order < 0 ? at.left : at.right;
    }
    return undefined;
  }

  has(key: Key): boolean {
    let at = this.#root;
    while (at !== undefined) {
      const order = this.#compare(key, at.key);
      if (order === 0) return true;
      at = order < 0 ? at.left : at.right;
    }
    return false;
  }

  set(key: Key, value: Value): SortedMap<Key, Value> {
    return new SortedMap(this.#compare, insert(this.#compare, this.#root, key, value));
  }

  /** Returns the same map if the key is missing. */
  delete(key: Key): SortedMap<Key, Value> {
    const root = remove(this.#compare, this.#root, key);
    return root === this.#root ? this : new SortedMap(this.#compare, root);
  }

  /** The first entry; with `from` the first one whose key is not before it. */
  first(from?: Key): readonly [Key, Value] | undefined {
    const next = this.entries(from).next();
    return next.done === true ? undefined : next.value;
  }

  last(): readonly [Key, Value] | undefined {
    let at = this.#root;
    while (at?.right !== undefined) at = at.right;
    return at && [at.key, at.value];
  }

  /** Number of keys that sort before this one, which need not be in the map. */
  rank(key: Key): number {
    let before = 0;
    let at = this.#root;
    while (at !== undefined) {
      if (this.#compare(key, at.key) <= 0) at = at.left;
      else {
        before += sizeOf(at.left) + 1;
        at = at.right;
      }
    }
    return before;
  }

  /** Entries in key order, beginning with the first key that is not before `from`. */
  *entries(from?: Key): Generator<readonly [Key, Value]> {
    const path: Branch<Key, Value>[] = [];
    let at = this.#root;
    while (at !== undefined) {
      if (from !== undefined && this.#compare(at.key, from) < 0) at = at.right;
      else {
        path.push(at);
        at = at.left;
      }
    }
    for (let branch = path.pop(); branch !== undefined; branch = path.pop()) {
      yield [branch.key, branch.value];
      for (let below = branch.right; below !== undefined; below = below.left) path.push(below);
    }
  }

  /** The summary of all values, or of those whose keys are not after `last`; undefined: none. Summarises only branches that no earlier map shares. */
  summary<Summary>(summaries: Summaries<Value, Summary>, last?: Key): Summary | undefined {
    let at = this.#root;
    if (last === undefined) return summarise(summaries, at);
    let before: Summary | undefined;
    while (at !== undefined) {
      if (this.#compare(at.key, last) > 0) at = at.left;
      else {
        const upToHere = mergeSummaries(summaries, summarise(summaries, at.left), summaries.of(at.value));
        before = mergeSummaries(summaries, before, upToHere);
        at = at.right;
      }
    }
    return before;
  }

  /**
   * Yields the candidates in key order, beginning with the first key that is not before `from`. Skips each branch whose summary is not promising; the predicate
   * may change its answer between entries.
   */
  *search<Summary>(
    summaries: Summaries<Value, Summary>,
    isPromising: (summary: Summary) => boolean,
    from?: Key,
  ): Generator<readonly [Key, Value]> {
    yield* search({ compare: this.#compare, summaries, isPromising }, this.#root, from);
  }

  /** As `search`, but yields better ranks early. `rankOf` returns undefined for a summary that is not promising. */
  *searchBest<Summary, Rank>(
    summaries: Summaries<Value, Summary>,
    rankOf: (summary: Summary) => Rank | undefined,
    compare: (a: Rank, b: Rank) => number,
  ): Generator<readonly [Key, Value]> {
    yield* searchBest({ summaries, rankOf, compare }, this.#root);
  }

  /**
   * Yields, in key order, the values that differ from an earlier map with the same order; undefined where one map lacks the key. Skips branches that both maps
   * share: it visits O(log n) branches for each change.
   */
  *changesSince(earlier: SortedMap<Key, Value>): Generator<{ readonly before?: Value; readonly after?: Value }> {
    const [old, now] = [unvisited(earlier.#root), unvisited(this.#root)];
    for (;;) {
      const [before, after] = [old.at(-1), now.at(-1)];
      if (before === undefined && after === undefined) return;
      if (before?.isEntry === false && before.branch === after?.branch && !after.isEntry) {
        old.pop();
        now.pop();
      } else if (after?.isEntry === false && !(before?.isEntry === false && before.branch.size > after.branch.size)) {
        expandLast(now);
      } else if (before?.isEntry === false) {
        expandLast(old);
      } else {
        const order = compareEntries(this.#compare, before?.branch, after?.branch);
        if (order <= 0) old.pop();
        if (order >= 0) now.pop();
        const change = {
          ...(before !== undefined && order <= 0 && { before: before.branch.value }),
          ...(after !== undefined && order >= 0 && { after: after.branch.value }),
        };
        if (change.before !== change.after) yield change;
      }
    }
  }

  *keys(): Generator<Key> {
    for (const [key] of this.entries()) yield key;
  }

  *values(): Generator<Value> {
    for (const [, value] of this.entries()) yield value;
  }
}

/** How values are summarised, so that a search skips whole branches. Maps share branches, so a change of one entry recomputes O(log n) summaries. */
export type Summaries<Value, Summary> = {
  /** Undefined for a value that no search asks for. */
  readonly of: (value: Value) => Summary | undefined;
  readonly merge: (a: Summary, b: Summary) => Summary;
  /** Returns whether an earlier summary is still valid. */
  readonly isCurrent: (summary: Summary) => boolean;
  /** Summary by branch; null: nothing. */
  readonly known: WeakMap<object, Summary | null>;
};

/** Orders strings by code unit, which does not depend on the machine's locale. */
export function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

export function compareNumbers(a: number, b: number): number {
  return a - b;
}

type Branch<Key, Value> = {
  readonly key: Key;
  readonly value: Value;
  readonly size: number;
  readonly left: Branch<Key, Value> | undefined;
  readonly right: Branch<Key, Value> | undefined;
};

type Side<Key, Value> = Branch<Key, Value> | undefined;

// The pair of parameters for which balance is proven to hold after every insertion and deletion (Hirai and Yamamoto, 2011).
const DELTA = 3;
const GAMMA = 2;

function sizeOf<Key, Value>(branch: Side<Key, Value>): number {
  return branch === undefined ? 0 : branch.size;
}

function join<Key, Value>(key: Key, value: Value, left: Side<Key, Value>, right: Side<Key, Value>): Branch<Key, Value> {
  return { key, value, left, right, size: sizeOf(left) + sizeOf(right) + 1 };
}

/** A pending branch of a walk with its subtrees, or its entry alone. */
type Unvisited<Key, Value> = { readonly branch: Branch<Key, Value>; readonly isEntry: boolean };

function unvisited<Key, Value>(branch: Side<Key, Value>): Unvisited<Key, Value>[] {
  return branch === undefined ? [] : [{ branch, isEntry: false }];
}

/** Replaces the last branch by its right side, its entry and its left side, so that the walk visits the left side first. */
function expandLast<Key, Value>(path: Unvisited<Key, Value>[]): void {
  const last = path.pop();
  if (last === undefined) return;
  const { branch } = last;
  path.push(...unvisited(branch.right), { branch, isEntry: true }, ...unvisited(branch.left));
}

/** A missing entry comes last. */
function compareEntries<Key, Value>(
  compare: (a: Key, b: Key) => number,
  one: Side<Key, Value>,
  other: Side<Key, Value>,
): number {
  if (one === undefined || other === undefined) return one === undefined ? 1 : -1;
  return compare(one.key, other.key);
}

function summarise<Key, Value, Summary>(
  summaries: Summaries<Value, Summary>,
  branch: Side<Key, Value>,
): Summary | undefined {
  if (branch === undefined) return undefined;
  const known = summaries.known.get(branch);
  if (known !== undefined && (known === null || summaries.isCurrent(known))) return known ?? undefined;
  const left = mergeSummaries(summaries, summarise(summaries, branch.left), summaries.of(branch.value));
  const summary = mergeSummaries(summaries, left, summarise(summaries, branch.right));
  summaries.known.set(branch, summary ?? null);
  return summary;
}

function mergeSummaries<Value, Summary>(
  { merge }: Summaries<Value, Summary>,
  a: Summary | undefined,
  b: Summary | undefined,
): Summary | undefined {
  return a === undefined || b === undefined ? (a ?? b) : merge(a, b);
}

type Search<Key, Value, Summary> = {
  readonly compare: (a: Key, b: Key) => number;
  readonly summaries: Summaries<Value, Summary>;
  readonly isPromising: (summary: Summary) => boolean;
};

function* search<Key, Value, Summary>(
  how: Search<Key, Value, Summary>,
  branch: Side<Key, Value>,
  from: Key | undefined,
): Generator<readonly [Key, Value]> {
  const { summaries, isPromising } = how;
  const all = summarise(summaries, branch);
  if (branch === undefined || all === undefined || !isPromising(all)) return;
  const isBefore = from !== undefined && how.compare(branch.key, from) < 0;
  if (!isBefore) {
    yield* search(how, branch.left, from);
    const own = summaries.of(branch.value);
    if (own !== undefined && isPromising(own)) yield [branch.key, branch.value];
  }
  yield* search(how, branch.right, isBefore ? from : undefined);
}

type BestSearch<Value, Summary, Rank> = {
  readonly summaries: Summaries<Value, Summary>;
  readonly rankOf: (summary: Summary) => Rank | undefined;
  readonly compare: (a: Rank, b: Rank) => number;
};

function* searchBest<Key, Value, Summary, Rank>(
  how: BestSearch<Value, Summary, Rank>,
  branch: Side<Key, Value>,
): Generator<readonly [Key, Value]> {
  const { summaries, rankOf, compare } = how;
  if (branch === undefined) return;
  const parts: { readonly below: Side<Key, Value>; readonly summary: Summary; readonly rank: Rank }[] = [];
  const add = (below: Side<Key, Value>, summary: Summary | undefined): void => {
    const rank = summary === undefined ? undefined : rankOf(summary);
    if (summary !== undefined && rank !== undefined) parts.push({ below, summary, rank });
  };
  add(undefined, summaries.of(branch.value));
  add(branch.left, summarise(summaries, branch.left));
  add(branch.right, summarise(summaries, branch.right));
  parts.sort((a, b) => compare(a.rank, b.rank));
  for (const [index, { below, summary }] of parts.entries()) {
    if (index > 0 && rankOf(summary) === undefined) continue;
    if (below === undefined) yield [branch.key, branch.value];
    else yield* searchBest(how, below);
  }
}

/** Places the middle entry on top, so that both sides weigh the same. */
function buildBranch<Key, Value>(
  sorted: readonly (readonly [Key, Value])[],
  from: number,
  to: number,
): Side<Key, Value> {
  const middle = (from + to) >> 1;
  const entry = sorted[middle];
  if (from >= to || entry === undefined) return undefined;
  return join(entry[0], entry[1], buildBranch(sorted, from, middle), buildBranch(sorted, middle + 1, to));
}

function* buildInSteps<Key, Value>(
  sorted: readonly (readonly [Key, Value])[],
  from: number,
  to: number,
): Steps<Side<Key, Value>> {
  const middle = (from + to) >> 1;
  const entry = sorted[middle];
  if (to - from <= ENTRIES_PER_STEP || entry === undefined) return buildBranch(sorted, from, to);
  const left = yield* buildInSteps(sorted, from, middle);
  yield;
  const right = yield* buildInSteps(sorted, middle + 1, to);
  return join(entry[0], entry[1], left, right);
}

/** Joins two sides after one of them gained or lost at most one entry. */
function balance<Key, Value>(
  key: Key,
  value: Value,
  left: Side<Key, Value>,
  right: Side<Key, Value>,
): Branch<Key, Value> {
  const leftWeight = sizeOf(left) + 1;
  const rightWeight = sizeOf(right) + 1;
  if (right !== undefined && rightWeight > DELTA * leftWeight) return rotateLeft(key, value, left, right);
  if (left !== undefined && leftWeight > DELTA * rightWeight) return rotateRight(key, value, left, right);
  return join(key, value, left, right);
}

function rotateLeft<Key, Value>(
  key: Key,
  value: Value,
  left: Side<Key, Value>,
  right: Branch<Key, Value>,
): Branch<Key, Value> {
  const inner = right.left;
  if (inner === undefined || sizeOf(inner) + 1 < GAMMA * (sizeOf(right.right) + 1))
    return join(right.key, right.value, join(key, value, left, inner), right.right);
  return join(
    inner.key,
    inner.value,
    join(key, value, left, inner.left),
    join(right.key, right.value, inner.right, right.right),
  );
}

function rotateRight<Key, Value>(
  key: Key,
  value: Value,
  left: Branch<Key, Value>,
  right: Side<Key, Value>,
): Branch<Key, Value> {
  const inner = left.right;
  if (inner === undefined || sizeOf(inner) + 1 < GAMMA * (sizeOf(left.left) + 1))
    return join(left.key, left.value, left.left, join(key, value, inner, right));
  return join(
    inner.key,
    inner.value,
    join(left.key, left.value, left.left, inner.left),
    join(key, value, inner.right, right),
  );
}

function insert<Key, Value>(
  compare: (a: Key, b: Key) => number,
  at: Side<Key, Value>,
  key: Key,
  value: Value,
): Branch<Key, Value> {
  if (at === undefined) return join(key, value, undefined, undefined);
  const order = compare(key, at.key);
  if (order === 0) return join(key, value, at.left, at.right);
  if (order < 0) return balance(at.key, at.value, insert(compare, at.left, key, value), at.right);
  return balance(at.key, at.value, at.left, insert(compare, at.right, key, value));
}

function remove<Key, Value>(compare: (a: Key, b: Key) => number, at: Side<Key, Value>, key: Key): Side<Key, Value> {
  if (at === undefined) return undefined;
  const order = compare(key, at.key);
  if (order === 0) {
    if (at.left === undefined) return at.right;
    if (at.right === undefined) return at.left;
    const next = leftmost(at.right);
    return balance(next.key, next.value, at.left, removeLeftmost(at.right));
  }
  if (order < 0) {
    const left = remove(compare, at.left, key);
    return left === at.left ? at : balance(at.key, at.value, left, at.right);
  }
  const right = remove(compare, at.right, key);
  return right === at.right ? at : balance(at.key, at.value, at.left, right);
}

function leftmost<Key, Value>(branch: Branch<Key, Value>): Branch<Key, Value> {
  let at = branch;
  while (at.left !== undefined) at = at.left;
  return at;
}

function removeLeftmost<Key, Value>(branch: Branch<Key, Value>): Side<Key, Value> {
  if (branch.left === undefined) return branch.right;
  return balance(branch.key, branch.value, removeLeftmost(branch.left), branch.right);
}
