import { forestOf, limitedAmounts, type QueueForest, type QueueNode } from "../ledger/queue-forest.ts";
import type { PairAmounts } from "../ledger/queue.ts";
import { comparePlaces, type Place, type WaitingClass } from "../ledger/waiting-queue.ts";
import type { World } from "../ledger/world.ts";
import { findShortage, freeOf, totalOf } from "../ledger/quota.ts";
import { askedAmounts } from "./asked-amounts.ts";
import { findQueueObstacle, quotaWorldOf } from "./find-queue-obstacle.ts";
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
  /** By queue, in its order, the classes that its own quota suffices for, whether or not it is used now. */
  readonly owned: ReadonlyMap<string, readonly OwnedClass[]>;
};

export type OwnedClass = { readonly place: Place; readonly waiting: WaitingClass; readonly asked: PairAmounts };

type Known = { readonly forest: QueueForest; readonly pools: PairAmounts; readonly tree: AdmissibleTree };

/** By the mark of the tree. */
const trees = new WeakMap<object, Known>();

/** The classes that quotas admit now, tree by tree. A tree is visited again when its requests, their use, its quotas or the pools change. */
export function* admissibleTrees(world: World): Generator<AdmissibleTree> {
  const { ledger } = world;
  if (ledger.queue.byQueue.size === 0) return;
  for (const name of ledger.treeMarks.keys()) {
    const tree = admissibleTree(name, world);
    if (tree !== undefined) yield tree;
  }
}

/** The classes of a queue that its own quota suffices for (`AdmissibleTree.owned`). */
export function ownedClasses(queue: string, world: World): readonly OwnedClass[] {
  const root = forestOf(world.ledger.queues).get(queue)?.root.name;
  return (root === undefined ? undefined : admissibleTree(root, world)?.owned.get(queue)) ?? [];
}

function admissibleTree(name: string, world: World): AdmissibleTree | undefined {
  const { ledger, machines } = world;
  const mark = ledger.treeMarks.get(name);
  const forest = forestOf(ledger.queues);
  const root = forest.get(name);
  if (mark === undefined || root === undefined) return undefined;
  const pools = poolAmounts(machines);
  const known = trees.get(mark);
  if (known?.forest === forest && known.pools === pools) return known.tree;
  const tree = visitTree(root, world);
  trees.set(mark, { forest, pools, tree });
  return tree;
}

function visitTree(root: QueueNode, world: World): AdmissibleTree {
  const inOrder: Admissible[] = [];
  const owned = new Map<string, readonly OwnedClass[]>();
  visit(root, world, { inOrder, owned });
  inOrder.sort((a, b) => a.level - b.level || comparePlaces(a.place, b.place));
  return { inOrder, byGang: Map.groupBy(inOrder, ({ waiting }) => waiting.gangKey), owned };
}

type Found = { readonly inOrder: Admissible[]; readonly owned: Map<string, readonly OwnedClass[]> };

function visit(node: QueueNode, world: World, found: Found): void {
  for (const child of node.children) visit(child, world, found);
  if (node.problem !== undefined) return;
  const { machines, ledger } = world;
  const quotas = quotaWorldOf(world);
  const free = remember((pair) => freeOf(node, pair, quotas));
  const total = remember((pair) => totalOf(node, pair, quotas.pools));
  const owned: OwnedClass[] = [];
  for (const [place, waiting] of ledger.queue.byQueue.get(node.queue.name)?.heads.entries() ?? []) {
    const asked = limitedAmounts(node, askedAmounts(waiting.needs, machines).amounts);
    if (findShortage(asked, total) === undefined) owned.push({ place, waiting, asked });
    if (findShortage(asked, free) !== undefined || findQueueObstacle(waiting, place, world) !== undefined) continue;
    found.inOrder.push({ place, waiting, level: levelOfDemand(waiting, world) });
  }
  if (owned.length > 0) found.owned.set(node.queue.name, owned);
}

/** The same function, computed once for each pair. */
function remember(compute: (pair: string) => number): (pair: string) => number {
  const known = new Map<string, number>();
  return (pair) => {
    const value = known.get(pair) ?? compute(pair);
    known.set(pair, value);
    return value;
  };
}
