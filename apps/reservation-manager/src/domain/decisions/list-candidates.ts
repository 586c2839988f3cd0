import {
  buildPreemptionOrderKey,
  comparePreemptionOrder,
  type PreemptionOrderKey,
  type Ledger,
} from "../ledger/ledger.ts";
import type { Reservation } from "../ledger/reservation.ts";
import { sumLimitedAmounts, withQueuesBelow, type QueueNode } from "../ledger/queue-forest.ts";
import { NO_PAIRS, type PairAmounts } from "../ledger/queue.ts";
import { withTreeUse, type QueueUse } from "../ledger/queue-use.ts";
import { computeQuotaTotal } from "../ledger/quota.ts";
import type { World } from "../ledger/world.ts";
import { isPreemptible } from "./is-preemptible.ts";
import { buildQuotaWorld } from "./queue-heads.ts";

/** Granted work that may be preempted. `use`: its amounts that quotas limit. */
export type Candidate = { readonly reservation: Reservation; readonly node: QueueNode; readonly use: PairAmounts };

/** The queue and the short pairs for which work is preempted. */
export type QuotaNeed = {
  readonly node: QueueNode;
  /** The pairs with short quota; if no quota is short, all requested pairs. */
  readonly needed: readonly string[];
  /** The world after all leaving work has left. Work that is still granted in it may be preempted. */
  readonly world: World;
};

/** The work of one queue in its order. Read lazily: thousands of candidates may exist, and a few suffice. */
export type QueueWork = { readonly node: QueueNode; readonly candidates: Iterable<Candidate> };

type MayLeave = (key: PreemptionOrderKey, node: QueueNode) => boolean;

/** Lists, by queue, the work of the tree's other queues that borrow a needed pair. */
export function listBorrowers(
  { node, needed, world }: QuotaNeed,
  present: World,
  mayLeave: MayLeave,
): readonly QueueWork[] {
  const { tree } = world.ledger.use;
  const usedBy = (each: QueueNode): PairAmounts => tree.get(each.queue.name) ?? NO_PAIRS;
  return [...withQueuesBelow(node.path.at(-1) ?? node)].flatMap((other) => {
    const keys = world.ledger.admitted.get(other.queue.name)?.keys();
    if (other === node || keys === undefined) return [];
    if (borrowedPairs({ node, needed, world }, splitPaths(node, other).below, usedBy).length === 0) return [];
    const may = (key: PreemptionOrderKey): boolean => mayLeave(key, other);
    return [{ node: other, candidates: remember(readCandidates(keys, may, other, present.ledger)) }];
  });
}

/** Lists the work of one queue that `mayLeave` accepts. */
export function listWork(
  node: QueueNode,
  { world }: QuotaNeed,
  present: World,
  mayLeave: MayLeave,
): Iterable<Candidate> {
  const keys = world.ledger.admitted.get(node.queue.name)?.keys() ?? [];
  return remember(readCandidates(keys, (key) => mayLeave(key, node), node, present.ledger));
}

function* readCandidates(
  keys: Iterable<PreemptionOrderKey>,
  may: (key: PreemptionOrderKey) => boolean,
  node: QueueNode,
  { reservations }: Ledger,
): Generator<Candidate, undefined> {
  for (const key of keys) {
    if (!may(key)) continue;
    const reservation = reservations.get(key.sequence);
    const { use } = reservation?.grant ?? {};
    // Skip work that is not granted at present or may not be preempted.
    if (reservation === undefined || use === undefined || !isPreemptible(reservation, node)) continue;
    yield { reservation, node, use: sumLimitedAmounts(node, use) };
  }
}

/** Shares one pass over the source between several readers. The source is read only as far as the furthest reader. */
function remember<Value extends object>(source: Iterator<Value>): Iterable<Value> {
  const known: Value[] = [];
  return {
    *[Symbol.iterator]() {
      for (let index = 0; ; index += 1) {
        if (index === known.length) {
          const next = source.next();
          if (next.done === true) return;
          known.push(next.value);
        }
        const value = known[index];
        if (value !== undefined) yield value;
      }
    },
  };
}

/** The order in which work is preempted. */
export function compareCandidates(a: Candidate, b: Candidate): number {
  return comparePreemptionOrder(keyOf(a), keyOf(b));
}

function keyOf({ reservation }: Candidate): PreemptionOrderKey {
  return buildPreemptionOrderKey(reservation, reservation.grant?.atMs ?? 0);
}

export function isBeyondMinimum({ reservation }: Candidate): boolean {
  return reservation.beyondMinimum === true;
}

/** Members beyond a job's minimum come first, because the job continues without them. Both groups keep their order. */
export function compareLosses(candidates: readonly Candidate[]): readonly Candidate[] {
  const members = candidates.filter(isBeyondMinimum);
  return members.length === 0 ? candidates : [...members, ...candidates.filter((each) => !isBeyondMinimum(each))];
}

/** Splits two paths at their first common queue. Returns the part of the other path below that queue, and the child of that queue on the own path. */
export function splitPaths(
  own: QueueNode,
  other: QueueNode,
): { readonly below: readonly QueueNode[]; readonly child: QueueNode } {
  const at = other.path.findIndex((each) => own.path.includes(each));
  const meeting = other.path[at];
  const child = own.path[(meeting === undefined ? 0 : own.path.indexOf(meeting)) - 1] ?? own;
  return { below: other.path.slice(0, at), child };
}

/** Returns the needed pairs that all these queues borrow: the candidate's queue and its ancestors below the first queue common with the request. */
function borrowedPairs(
  { needed, world }: QuotaNeed,
  below: readonly QueueNode[],
  usedBy: (node: QueueNode) => PairAmounts,
): readonly string[] {
  const { pools } = buildQuotaWorld(world);
  return needed.filter((pair) =>
    below.every((each) => (usedBy(each).get(pair) ?? 0) > computeQuotaTotal(each, pair, pools)),
  );
}

export function withoutUse(use: QueueUse["tree"], { node, use: amounts }: Candidate): QueueUse["tree"] {
  return withTreeUse(use, node, amounts, -1);
}

/** Finds the work of one queue that still borrows while the use decreases from call to call. */
export class Borrower {
  readonly node: QueueNode;
  readonly #need: QuotaNeed;
  readonly #below: readonly QueueNode[];
  readonly #candidates: Iterator<Candidate>;
  #first: Candidate | undefined;
  #pairs: readonly string[] = [];
  /** The use of `#pairs` by each queue of `#below`. */
  #used: readonly PairAmounts[] = [];

  constructor({ node, candidates }: QueueWork, need: QuotaNeed) {
    this.node = node;
    this.#need = need;
    this.#below = splitPaths(need.node, node).below;
    this.#candidates = candidates[Symbol.iterator]();
    this.take();
  }

  /** The first work that still borrows; undefined: none. Use must only decrease from call to call. */
  first(use: QueueUse["tree"]): Candidate | undefined {
    if (this.#first === undefined) return undefined;
    const used = this.#below.map((each) => use.get(each.queue.name) ?? NO_PAIRS);
    if (used.some((each, index) => each !== this.#used[index])) {
      this.#used = used;
      this.#pairs = borrowedPairs(this.#need, this.#below, (each) => used[this.#below.indexOf(each)] ?? NO_PAIRS);
    }
    if (this.#pairs.length === 0) this.#first = undefined;
    while (this.#first !== undefined && !uses(this.#first, this.#pairs)) this.take();
    return this.#first;
  }

  take(): void {
    const next = this.#candidates.next();
    this.#first = next.done === true ? undefined : next.value;
  }
}

function uses({ use }: Candidate, pairs: readonly string[]): boolean {
  return pairs.some((pair) => (use.get(pair) ?? 0) > 0);
}

/** Selects at most `limit` candidates that borrow when it is their turn, in their order over all queues. */
export function selectBorrowers(need: QuotaNeed, work: readonly QueueWork[], limit: number): readonly Candidate[] {
  const selected: Candidate[] = [];
  let borrowers = work.map((each) => new Borrower(each, need));
  for (let use = need.world.ledger.use.tree; selected.length < limit;) {
    let first: { readonly candidate: Candidate; readonly borrower: Borrower } | undefined;
    const left: Borrower[] = [];
    for (const borrower of borrowers) {
      const candidate = borrower.first(use);
      if (candidate === undefined) continue;
      left.push(borrower);
      if (first === undefined || compareCandidates(candidate, first.candidate) < 0) first = { candidate, borrower };
    }
    if (first === undefined) break;
    borrowers = left;
    selected.push(first.candidate);
    use = withoutUse(use, first.candidate);
    first.borrower.take();
  }
  return selected;
}
