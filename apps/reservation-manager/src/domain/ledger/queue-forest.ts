import type { PairAmounts, Queue, Queues } from "./queue.ts";

/** The reason why a queue admits nothing. A queue inherits every problem of the queues above it, except NOT_A_LEAF. */
export type QueueProblem = BrokenQueue | "HELD" | "NOT_A_LEAF";

/** Problems that make the quota unknown. */
type BrokenQueue = "PARENT_MISSING" | "CYCLE" | "TOO_DEEP" | "UNREADABLE";

/** A queue in its tree. Contains no amounts that depend on machines, so a forest is valid as long as its queues. */
export type QueueNode = {
  readonly queue: Queue;
  readonly parent: QueueNode | undefined;
  /** From this queue to its root. */
  readonly path: readonly QueueNode[];
  readonly pathFromRoot: readonly QueueNode[];
  readonly children: readonly QueueNode[];
  readonly root: QueueTree;
  /** Quota of the queue, with the quota that queues below it lend. A root has here no amounts of its pools. */
  readonly total: PairAmounts;
  /** The part of `total` that the queue lends to no other queue; without pairs that have no lending limit. */
  readonly guaranteed: PairAmounts;
  readonly problem: QueueProblem | undefined;
};

/** Suffixes of the pairs that are limited only if a queue or one above it names them. */
const OPTIONAL_RESOURCES = [" pods", " ephemeral-storage"];

export type QueueTree = {
  /** Name of the root. */
  readonly name: string;
  /** Pairs with a quota in some queue of the tree. */
  readonly named: ReadonlySet<string>;
  /**
   * True if the root has no quota and at least one leaf of the tree has none. For unnamed pairs, the root then has the allocatable amounts of the pools' nodes.
   * Only leaves without a quota may use unnamed pairs.
   */
  readonly hasPoolsAsQuota: boolean;
};

export type QueueForest = ReadonlyMap<string, QueueNode>;

const forests = new WeakMap<Queues, QueueForest>();

/** Builds the trees of these queues. A queue with a missing parent, or in a cycle, gets a tree of its own and admits nothing. */
export function getForest(queues: Queues): QueueForest {
  const known = forests.get(queues);
  if (known !== undefined) return known;
  const forest = buildForest(queues);
  forests.set(queues, forest);
  return forest;
}

function buildForest(queues: Queues): QueueForest {
  const children = new Map<string, Queue[]>();
  const roots: { readonly queue: Queue; readonly problem?: QueueProblem }[] = [];
  for (const queue of queues.values()) {
    const { parent } = queue;
    if (parent === undefined) roots.push({ queue });
    else if (queues.get(parent) === undefined) roots.push({ queue, problem: "PARENT_MISSING" });
    else if (isBelowItself(queue, queues)) roots.push({ queue, problem: "CYCLE" });
    else if (isTooDeep(queue, queues)) roots.push({ queue, problem: "TOO_DEEP" });
    else {
      const siblings = children.get(parent);
      if (siblings === undefined) children.set(parent, [queue]);
      else siblings.push(queue);
    }
  }
  const forest = new Map<string, QueueNode>();
  for (const { queue, problem } of roots) {
    const named = new Set<string>();
    addNamed(queue, children, named);
    const hasPoolsAsQuota = queue.quotas.size === 0 && hasLeafWithoutQuotas(queue, children);
    const root = { name: queue.name, named, hasPoolsAsQuota };
    addNode({ queue, parent: undefined, root, problem }, children, forest);
  }
  return forest;
}

/** Returns whether the queue is part of a cycle. Queues that merely hang below a cycle are not. */
function isBelowItself(queue: Queue, queues: Queues): boolean {
  const seen = new Set<string>();
  for (let { parent } = queue; parent !== undefined && !seen.has(parent); parent = queues.get(parent)?.parent) {
    if (parent === queue.name) return true;
    seen.add(parent);
  }
  return false;
}

/** Maximum of queues above one: decisions walk the path to the root. */
const MAX_DEPTH = 16;

function isTooDeep(queue: Queue, queues: Queues): boolean {
  let depth = 0;
  for (let { parent } = queue; parent !== undefined && depth <= MAX_DEPTH; parent = queues.get(parent)?.parent)
    depth += 1;
  return depth > MAX_DEPTH;
}

function addNamed(queue: Queue, children: ReadonlyMap<string, readonly Queue[]>, named: Set<string>): void {
  for (const pair of queue.quotas.keys()) named.add(pair);
  for (const child of children.get(queue.name) ?? []) addNamed(child, children, named);
}

function hasLeafWithoutQuotas(queue: Queue, children: ReadonlyMap<string, readonly Queue[]>): boolean {
  const below = children.get(queue.name);
  if (below === undefined) return queue.quotas.size === 0;
  return below.some((child) => hasLeafWithoutQuotas(child, children));
}

type Above = Pick<QueueNode, "queue" | "parent" | "root" | "problem">;

function addNode(
  { queue, parent, root, problem }: Above,
  below: ReadonlyMap<string, readonly Queue[]>,
  forest: Map<string, QueueNode>,
): QueueNode {
  const ofChildren = below.get(queue.name) ?? [];
  const children: QueueNode[] = [];
  const path: QueueNode[] = [];
  const pathFromRoot: QueueNode[] = [];
  const total = new Map<string, number>();
  const guaranteed = new Map<string, number>();
  const own = problemOf(queue, problem, ofChildren.length > 0);
  const node = { queue, parent, path, pathFromRoot, children, root, total, guaranteed, problem: own };
  path.push(node, ...(parent?.path ?? []));
  pathFromRoot.push(...(parent?.pathFromRoot ?? []), node);
  for (const [pair, { nominal }] of queue.quotas) total.set(pair, nominal);
  const inherited = own === "NOT_A_LEAF" ? undefined : own;
  for (const child of ofChildren) {
    const added = addNode({ queue: child, parent: node, root, problem: inherited }, below, forest);
    children.push(added);
    for (const [pair, amount] of added.total) {
      const lent = amount - (added.guaranteed.get(pair) ?? 0);
      total.set(pair, (total.get(pair) ?? 0) + lent);
    }
  }
  for (const [pair, { lendingLimit }] of queue.quotas)
    if (lendingLimit !== undefined) guaranteed.set(pair, Math.max(0, (total.get(pair) ?? 0) - lendingLimit));
  forest.set(queue.name, node);
  return node;
}

/** `above`: the problem of the queues above it. Problems that make quotas unknown come first. */
function problemOf(
  { problem, stopPolicy }: Queue,
  above: QueueProblem | undefined,
  isInner: boolean,
): QueueProblem | undefined {
  if (above !== undefined && above !== "HELD") return above;
  if (problem !== undefined) return "UNREADABLE";
  if (above !== undefined || stopPolicy !== "None") return "HELD";
  return isInner ? "NOT_A_LEAF" : undefined;
}

/** The queue and all queues below it. */
export function* withQueuesBelow(node: QueueNode): Generator<QueueNode> {
  yield node;
  for (const child of node.children) yield* withQueuesBelow(child);
}

/** Returns whether the quota of the queue is unknown. */
export function isBroken({ problem }: QueueNode): boolean {
  return problem !== undefined && problem !== "HELD" && problem !== "NOT_A_LEAF";
}

/** Returns whether a quota limits the pair for the queue. */
export function isLimited({ path }: QueueNode, pair: string): boolean {
  return !isOptional(pair) || path.some(({ queue }) => queue.quotas.has(pair));
}

/** Work of a queue with a quota uses only the named pairs. */
export function mayUse({ queue }: QueueNode, pair: string): boolean {
  return queue.quotas.size === 0 || queue.quotas.has(pair) || isOptional(pair);
}

function isOptional(pair: string): boolean {
  return OPTIONAL_RESOURCES.some((resource) => pair.endsWith(resource));
}

const limited = new WeakMap<QueueNode, WeakMap<PairAmounts, PairAmounts>>();

/** Returns the amounts that a quota limits for the queue. */
export function sumLimitedAmounts(node: QueueNode, amounts: PairAmounts): PairAmounts {
  const known = limited.get(node) ?? new WeakMap<PairAmounts, PairAmounts>();
  limited.set(node, known);
  const same = known.get(amounts);
  if (same !== undefined) return same;
  const ofNode = new Map([...amounts].filter(([pair, amount]) => amount > 0 && isLimited(node, pair)));
  known.set(amounts, ofNode);
  return ofNode;
}
