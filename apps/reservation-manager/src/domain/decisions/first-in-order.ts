import type { SortedMap } from "../ledger/sorted-map.ts";
import { comparePlaces, type Place, type WaitingClass } from "../ledger/waiting-queue.ts";
import type { World } from "../ledger/world.ts";
import { askedAmounts } from "./asked-amounts.ts";
import { quotaWorldOf, type QueueDemand } from "./find-queue-obstacle.ts";
import { forestOf, limitedAmounts, type QueueNode } from "../ledger/queue-forest.ts";
import { NO_PAIRS } from "../ledger/queue.ts";
import { withTreeUse, type QueueUse } from "../ledger/queue-use.ts";
import { levelOf, type QuotaWorld } from "../ledger/quota.ts";
import { compareShares, NO_SHARE, shareOf } from "../ledger/share.ts";

type Candidate = {
  readonly place: Place;
  readonly waiting: WaitingClass;
  /** As `levelOf`. */
  readonly level: number;
  /** Undefined: it has no queue. */
  readonly node: QueueNode | undefined;
  /** The use of the tree once it is granted. */
  readonly use: QueueUse["tree"];
  /** It borrows for a queue without weight: it comes after all others. */
  readonly isLast: boolean;
};

type Candidates = SortedMap<Place, WaitingClass>;

/**
 * Who is next of the requests that can be granted: in each queue the first by priority and age; between the queues of one parent the one whose nearest quota
 * suffices, then the lower share with the request, then priority and age, and queues without weight that borrow come last; from the leaves to the roots. Trees,
 * and requests without a queue, which borrow nothing, are compared alike, without shares. `rest`: the other candidates, without those found to be blocked.
 * `compared`: how many queues had one.
 */
export function takeFirst(
  candidates: Candidates,
  world: World,
  isBlocked: (waiting: WaitingClass, place: Place) => boolean,
): {
  readonly first: readonly [Place, WaitingClass] | undefined;
  readonly rest: Candidates;
  readonly compared: number;
} {
  const firsts = new Map<string | undefined, readonly [Place, WaitingClass]>();
  let rest = candidates;
  for (const [place, waiting] of candidates.entries()) {
    if (firsts.has(waiting.queue)) continue;
    if (isBlocked(waiting, place)) rest = rest.delete(place);
    else firsts.set(waiting.queue, [place, waiting]);
    if (firsts.size > 0 && world.ledger.queue.byQueue.size === 0) break;
  }
  const first = firsts.size < 2 ? [...firsts.values()][0] : playAll([...firsts.values()], world);
  return { first, rest: first === undefined ? rest : rest.delete(first[0]), compared: firsts.size };
}

function playAll(firsts: readonly (readonly [Place, WaitingClass])[], world: World): readonly [Place, WaitingClass] {
  const quotas = quotaWorldOf(world);
  const candidates = firsts.map(([place, waiting]) => candidateOf(place, waiting, world, quotas));
  const { place, waiting } = winnerOf(candidates, quotas);
  return [place, waiting];
}

function candidateOf(place: Place, waiting: WaitingClass, world: World, quotas: QuotaWorld): Candidate {
  const node = waiting.queue === undefined ? undefined : forestOf(world.ledger.queues).get(waiting.queue);
  if (node === undefined) return { place, waiting, level: 0, node, use: quotas.use, isLast: false };
  const asked = limitedAmounts(node, askedAmounts(waiting.needs, world.machines).amounts);
  const use = withTreeUse(quotas.use, node, asked, 1);
  const isLast = node.path.some((each) => {
    return each.queue.weightMilli === 0 && shareOf(each, use.get(each.queue.name) ?? NO_PAIRS, quotas).isLast;
  });
  return { place, waiting, node, level: levelOf(node, asked, quotas), use, isLast };
}

/** Plays the winners of the deepest queues against each other, and so on upwards. */
function winnerOf(candidates: readonly Candidate[], quotas: QuotaWorld): Candidate {
  const depth = Math.max(...candidates.map(({ node }) => node?.path.length ?? 1));
  let winners = new Map(candidates.map((candidate) => [candidate.node, candidate]));
  for (let level = depth; level > 1; level -= 1) {
    const next = new Map<QueueNode | undefined, Candidate>();
    for (const [node, candidate] of winners) {
      const at = node?.path.length === level ? node.parent : node;
      const other = next.get(at);
      if (other === undefined || compareSiblings(candidate, other, at, quotas) < 0) next.set(at, candidate);
    }
    winners = next;
  }
  return [...winners.values()].reduce((first, other) => (compareTrees(other, first) < 0 ? other : first));
}

/** Two candidates below one queue: what counts is how far from its children the quota is that suffices. */
function compareSiblings(a: Candidate, b: Candidate, parent: QueueNode | undefined, quotas: QuotaWorld): number {
  if (parent === undefined) return compareTrees(a, b);
  const below = ({ node, use, level }: Candidate) => {
    const index = (node?.path.indexOf(parent) ?? 0) - 1;
    const child = node?.path[index];
    const share = child === undefined ? NO_SHARE : shareOf(child, use.get(child.queue.name) ?? NO_PAIRS, quotas);
    return { level: Math.max(0, level - index), share };
  };
  const [ofA, ofB] = [below(a), below(b)];
  return (
    Number(a.isLast) - Number(b.isLast) ||
    ofA.level - ofB.level ||
    compareShares(ofA.share, ofB.share) ||
    comparePlaces(a.place, b.place)
  );
}

/** Trees lend nothing to each other. */
function compareTrees(a: Candidate, b: Candidate): number {
  return Number(a.isLast) - Number(b.isLast) || comparePlaces(a.place, b.place);
}

/** How far from its queue the quota is that suffices for the demand; 0 without a queue. */
export function levelOfDemand({ queue, needs }: QueueDemand, world: World): number {
  const node = queue === undefined ? undefined : forestOf(world.ledger.queues).get(queue);
  if (node === undefined) return 0;
  return levelOf(node, limitedAmounts(node, askedAmounts(needs, world.machines).amounts), quotaWorldOf(world));
}
