import type { SortedMap } from "../ledger/sorted-map.ts";
import { comparePlaces, type Place, type WaitingClass } from "../ledger/waiting-queue.ts";
import type { World } from "../ledger/world.ts";
import { askedAmounts } from "./asked-amounts.ts";
import { quotaWorldOf, type QueueDemand } from "./find-queue-obstacle.ts";
import { forestOf, type QueueNode } from "../ledger/queue-forest.ts";
import type { PairAmounts } from "../ledger/queue.ts";
import { levelOf, limitedAmounts, useWith, type QuotaWorld } from "../ledger/quota.ts";
import { compareShares, shareOf } from "../ledger/share.ts";

type Candidate = {
  readonly place: Place;
  readonly waiting: WaitingClass;
  /** As `levelOf`. */
  readonly level: number;
  /** Undefined: it has no queue. */
  readonly node: QueueNode | undefined;
  /** The use of the queues above it once it is granted. */
  readonly use: ReadonlyMap<QueueNode, PairAmounts>;
};

/**
 * Who is next of the requests that could be granted: in each queue the first by priority and age; between the queues of one parent the one whose nearest quota
 * suffices, then the lower share with the request, then priority and age; from the leaves to the roots. Trees, and requests without a queue, which borrow
 * nothing, are compared alike, without shares.
 */
export function firstInOrder(
  candidates: SortedMap<Place, WaitingClass>,
  world: World,
): readonly [Place, WaitingClass] | undefined {
  if (world.ledger.queue.byQueue.size === 0) return candidates.first();
  const quotas = quotaWorldOf(world);
  const winners = new Map<QueueNode | undefined, Candidate>();
  const seen = new Set<string | undefined>();
  for (const [place, waiting] of candidates.entries()) {
    if (seen.has(waiting.queue)) continue;
    seen.add(waiting.queue);
    const candidate = candidateOf(place, waiting, world, quotas);
    winners.set(candidate.node, candidate);
  }
  if (seen.size < 2) return candidates.first();
  const first = winnerOf(winners, quotas);
  return first && [first.place, first.waiting];
}

function candidateOf(place: Place, waiting: WaitingClass, world: World, quotas: QuotaWorld): Candidate {
  const node = waiting.queue === undefined ? undefined : forestOf(world.ledger.queues).get(waiting.queue);
  if (node === undefined) return { place, waiting, level: 0, node, use: new Map() };
  const asked = limitedAmounts(node, askedAmounts(waiting.needs, world.machines).amounts);
  return { place, waiting, node, level: levelOf(node, asked, quotas), use: useWith(node, asked, quotas) };
}

/** Plays the winners of the deepest queues against each other, and so on upwards. */
function winnerOf(leaves: ReadonlyMap<QueueNode | undefined, Candidate>, quotas: QuotaWorld): Candidate | undefined {
  const depth = Math.max(...[...leaves.keys()].map((node) => node?.path.length ?? 1));
  let winners = leaves;
  for (let level = depth; level > 1; level -= 1) {
    const next = new Map<QueueNode | undefined, Candidate>();
    for (const [node, candidate] of winners) {
      const isPlayed = node !== undefined && node.path.length === level;
      const at = isPlayed ? node.parent : node;
      const other = next.get(at);
      if (other === undefined || compareSiblings(candidate, other, at, quotas) < 0) next.set(at, candidate);
    }
    winners = next;
  }
  return [...winners.values()].sort(compareTrees)[0];
}

/** Two candidates below one queue. */
function compareSiblings(a: Candidate, b: Candidate, parent: QueueNode | undefined, quotas: QuotaWorld): number {
  if (a.level !== b.level || parent === undefined) return compareTrees(a, b);
  const share = ({ node, use }: Candidate) => {
    const child = node?.path[node.path.indexOf(parent) - 1];
    return child === undefined ? undefined : shareOf(child, use.get(child) ?? new Map(), quotas);
  };
  const [ofA, ofB] = [share(a), share(b)];
  return (ofA && ofB ? compareShares(ofA, ofB) : 0) || comparePlaces(a.place, b.place);
}

function compareTrees(a: Candidate, b: Candidate): number {
  return a.level - b.level || comparePlaces(a.place, b.place);
}

/** How far from its queue the quota is that suffices for the demand; 0 without a queue. */
export function levelOfDemand({ queue, needs }: QueueDemand, world: World): number {
  const node = queue === undefined ? undefined : forestOf(world.ledger.queues).get(queue);
  if (node === undefined) return 0;
  return levelOf(node, limitedAmounts(node, askedAmounts(needs, world.machines).amounts), quotaWorldOf(world));
}
