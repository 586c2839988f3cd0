import { forestOf, type QueueForest, type QueueNode } from "../ledger/queue-forest.ts";
import type { PairAmounts } from "../ledger/queue.ts";
import { comparePlaces, type Place, type WaitingClass } from "../ledger/waiting-queue.ts";
import type { World } from "../ledger/world.ts";
import { findQueueObstacle } from "./find-queue-obstacle.ts";
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
  const inOrder = [...admissibleBelow(root, world)].sort(
    (a, b) => a.level - b.level || comparePlaces(a.place, b.place),
  );
  return { inOrder, byGang: Map.groupBy(inOrder, ({ waiting }) => waiting.gangKey) };
}

function* admissibleBelow(node: QueueNode, world: World): Generator<Admissible> {
  for (const child of node.children) yield* admissibleBelow(child, world);
  if (node.problem !== undefined) return;
  for (const [place, waiting] of world.ledger.queue.byQueue.get(node.queue.name)?.heads.entries() ?? [])
    if (findQueueObstacle(waiting, place, world) === undefined)
      yield { place, waiting, level: levelOfDemand(waiting, world) };
}
