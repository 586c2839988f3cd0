import { forestOf, limitedAmounts, type QueueForest, type QueueNode } from "../ledger/queue-forest.ts";
import type { PairAmounts } from "../ledger/queue.ts";
import { comparePlaces, type Place, type WaitingClass } from "../ledger/waiting-queue.ts";
import type { World } from "../ledger/world.ts";
import { totalOf } from "../ledger/quota.ts";
import { askedAmounts } from "./asked-amounts.ts";
import { findQueueObstacle, isPossible } from "./find-queue-obstacle.ts";
import { levelOfDemand } from "./first-in-order.ts";
import { poolAmounts } from "./pool-amounts.ts";

/** A class whose first request its queue has nothing against. */
export type Admissible = {
  readonly place: Place;
  readonly waiting: WaitingClass;
  /** As `levelOf`. */
  readonly level: number;
};

type AdmissibleTree = {
  /** By level, then in queue order. */
  readonly inOrder: readonly Admissible[];
  /** By what is asked for. */
  readonly byGang: ReadonlyMap<string, readonly Admissible[]>;
  /** The classes of each queue, in its order, that the queue's own quota suffices for, whether or not it is used now. */
  readonly owned: readonly OwnedClass[];
  /** When the first of them was requested. */
  readonly ownedSinceMs: number;
};

type OwnedClass = {
  readonly place: Place;
  readonly waiting: WaitingClass;
  readonly queue: string;
  readonly asked: PairAmounts;
};

type Known = { readonly forest: QueueForest; readonly pools: PairAmounts; readonly tree: AdmissibleTree };

/** By the mark of the tree. */
const trees = new WeakMap<object, Known>();

/** The classes of all queues that quotas let go now, tree by tree. A tree is visited again when its requests, their use, its quotas or the pools change. */
export function* admissibleTrees(world: World): Generator<AdmissibleTree> {
  const { ledger, machines } = world;
  if (ledger.queue.byQueue.size === 0) return;
  const forest = forestOf(ledger.queues);
  const pools = poolAmounts(machines);
  for (const [name, mark] of ledger.treeMarks.entries()) {
    const known = trees.get(mark);
    const root = forest.get(name);
    if (known?.forest === forest && known.pools === pools) yield known.tree;
    else if (root !== undefined) {
      const tree = visitTree(root, world);
      trees.set(mark, { forest, pools, tree });
      yield tree;
    }
  }
}

function visitTree(root: QueueNode, world: World): AdmissibleTree {
  const inOrder: Admissible[] = [];
  const owned: OwnedClass[] = [];
  visit(root, world, { inOrder, owned });
  inOrder.sort((a, b) => a.level - b.level || comparePlaces(a.place, b.place));
  const byGang = Map.groupBy(inOrder, ({ waiting }) => waiting.gangKey);
  const ownedSinceMs = owned.reduce((first, { place }) => Math.min(first, place.createdAtMs), Number.POSITIVE_INFINITY);
  return { inOrder, byGang, owned, ownedSinceMs };
}

function visit(
  node: QueueNode,
  world: World,
  found: { readonly inOrder: Admissible[]; readonly owned: OwnedClass[] },
): void {
  for (const child of node.children) visit(child, world, found);
  if (node.problem !== undefined) return;
  const { name: queue } = node.queue;
  const { machines, ledger } = world;
  for (const [place, waiting] of ledger.queue.byQueue.get(queue)?.heads.entries() ?? []) {
    if (findQueueObstacle(waiting, place, world) === undefined)
      found.inOrder.push({ place, waiting, level: levelOfDemand(waiting, world) });
    const asked = limitedAmounts(node, askedAmounts(waiting.needs, machines).amounts);
    const isOwned = [...asked].every(([pair, amount]) => amount <= totalOf(node, pair, poolAmounts(machines)));
    if (isOwned && isPossible(waiting, machines)) found.owned.push({ place, waiting, queue, asked });
  }
}
