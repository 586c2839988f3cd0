import type { Amounts } from "@muster/resources";
import type { Owner, WatchedPod } from "./pod-state.ts";

/** The fields of a pod outside Muster that the watcher keeps: its use of its node. */
export type OtherPod = {
  readonly namespace: string;
  readonly name: string;
  readonly node: string;
  readonly finished: boolean;
  /** overhead: the pod runs on its node independently of the holder of the machine, as a pod of a DaemonSet does. */
  readonly group: "overhead" | "foreign";
  readonly requests: Amounts;
};

/** Any pod of the cluster. */
export type ClusterPod = WatchedPod | OtherPod;

/** The requests of a group of pods on their node. */
export type NodeUse = {
  readonly pods: number;
  /** By resource, without `pods` and without zeros. */
  readonly requests: Readonly<Record<string, number>>;
  /** The first pods of the group in alphabetical order, `namespace/name`. */
  readonly examples: readonly string[];
};

export type OwnerUse = { readonly owner: Owner; readonly use: NodeUse };

/** The use of a node by its unfinished pods. Each pod counts in one group; the requests of exclusive pods count in none. */
export type NodeUses = {
  /** Owners of the exclusive pods, sorted by kind and id, each once. */
  readonly occupants: readonly Owner[];
  readonly overhead: NodeUse;
  readonly foreign: NodeUse;
  /** Pods of Muster that are not exclusive, by owner, sorted by kind and id. */
  readonly shared: readonly OwnerUse[];
};

const NO_USE: NodeUse = { pods: 0, requests: {}, examples: [] };
export const NO_USES: NodeUses = { occupants: [], overhead: NO_USE, foreign: NO_USE, shared: [] };

const MAX_EXAMPLES = 3;

type Sum = { pods: number; readonly requests: Map<string, number>; readonly examples: string[] };
type OwnerSum = { readonly owner: Owner; readonly sum: Sum };
type Sums = {
  readonly occupants: Map<string, Owner>;
  readonly shared: Map<string, OwnerSum>;
  readonly overhead: Sum;
  readonly foreign: Sum;
};

/** Builds the uses of nodes by pods, by the name of the node. */
export function buildNodeUses(pods: Iterable<ClusterPod>): ReadonlyMap<string, NodeUses> {
  const byNode = new Map<string, Sums>();
  for (const pod of pods) {
    if (!usesNode(pod)) continue;
    const sums = byNode.get(pod.node) ?? makeSums();
    byNode.set(pod.node, sums);
    if (!isOwned(pod)) addPod(sums[pod.group], pod);
    else if (pod.exclusive) sums.occupants.set(ownerKey(pod), pod.owner);
    else addPod(sharedSum(sums.shared, pod), pod);
  }
  return new Map([...byNode].map(([node, sums]) => [node, toUses(sums)]));
}

/** Returns the nodes whose use changes when a pod is added, removed or changed. */
export function findChangedNodes(before: ClusterPod | undefined, after: ClusterPod | undefined): readonly string[] {
  const [was, is] = [before, after].map((pod) => (pod !== undefined && usesNode(pod) ? pod : undefined));
  const same = was === undefined || is === undefined ? was === is : usesAlike(was, is);
  return same ? [] : [was, is].flatMap((pod) => pod?.node ?? []);
}

export function isOwned(pod: ClusterPod): pod is WatchedPod {
  return "owner" in pod;
}

export function isOtherPod(pod: ClusterPod): pod is OtherPod {
  return !isOwned(pod);
}

export function areUsesEqual(one: NodeUses, other: NodeUses): boolean {
  return (
    sameOwners(one.occupants, other.occupants) &&
    sameUse(one.overhead, other.overhead) &&
    sameUse(one.foreign, other.foreign) &&
    sameShared(one.shared, other.shared)
  );
}

/** Returns whether only overhead and foreign differ, and their sum does not: the same pods are assigned to different groups. */
export function areRegrouped(one: NodeUses, other: NodeUses): boolean {
  if (sameUse(one.overhead, other.overhead) || sameUse(one.foreign, other.foreign)) return false;
  if (!sameOwners(one.occupants, other.occupants) || !sameShared(one.shared, other.shared)) return false;
  const samePods = one.overhead.pods + one.foreign.pods === other.overhead.pods + other.foreign.pods;
  return (
    samePods && areRecordsEqual(addRequests(one.overhead, one.foreign), addRequests(other.overhead, other.foreign))
  );
}

export function areRecordsEqual<Value>(
  one: Readonly<Record<string, Value>>,
  other: Readonly<Record<string, Value>>,
): boolean {
  const keys = Object.keys(one);
  return keys.length === Object.keys(other).length && keys.every((key) => one[key] === other[key]);
}

/** Limits an amount to values that the wire carries exactly. */
export function clampAmount(amount: number): number {
  return Math.min(Number.MAX_SAFE_INTEGER, Math.max(0, amount));
}

/** Returns whether the pod uses its node. A pod in deletion uses its node until it is gone. */
function usesNode({ finished, node }: ClusterPod): boolean {
  return !finished && node !== "";
}

function usesAlike(one: ClusterPod, other: ClusterPod): boolean {
  if (one.node !== other.node) return false;
  if (!isOwned(one) || !isOwned(other)) {
    return !isOwned(one) && !isOwned(other) && one.group === other.group && sameAmounts(one.requests, other.requests);
  }
  if (one.exclusive !== other.exclusive || !sameOwner(one.owner, other.owner)) return false;
  return one.exclusive || sameAmounts(one.requests, other.requests);
}

function ownerKey({ owner }: WatchedPod): string {
  return `${owner.kind}.${owner.id}`;
}

function makeSum(): Sum {
  return { pods: 0, requests: new Map(), examples: [] };
}

function makeSums(): Sums {
  return { occupants: new Map(), shared: new Map(), overhead: makeSum(), foreign: makeSum() };
}

function sharedSum(shared: Map<string, OwnerSum>, pod: WatchedPod): Sum {
  const key = ownerKey(pod);
  const known = shared.get(key) ?? { owner: pod.owner, sum: makeSum() };
  shared.set(key, known);
  return known.sum;
}

function addPod(sum: Sum, { namespace, name, requests }: ClusterPod): void {
  sum.pods += 1;
  for (const [resource, amount] of requests) {
    const total = clampAmount((sum.requests.get(resource) ?? 0) + clampAmount(amount));
    // The number of pods has its own field.
    if (total > 0 && resource !== "pods") sum.requests.set(resource, total);
  }
  addExample(sum.examples, `${namespace}/${name}`);
}

function addExample(examples: string[], name: string): void {
  const isFull = examples.length === MAX_EXAMPLES;
  if (isFull && name > (examples.at(-1) ?? "")) return;
  if (isFull) examples.pop();
  examples.push(name);
  examples.sort();
}

function toUses({ occupants, shared, overhead, foreign }: Sums): NodeUses {
  return {
    occupants: sortedValues(occupants),
    overhead: toUse(overhead),
    foreign: toUse(foreign),
    shared: sortedValues(shared).map(({ owner, sum }) => ({ owner, use: toUse(sum) })),
  };
}

function toUse({ pods, requests, examples }: Sum): NodeUse {
  return { pods, requests: Object.fromEntries(requests), examples };
}

function sortedValues<Value>(byKey: ReadonlyMap<string, Value>): readonly Value[] {
  return [...byKey].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, value]) => value);
}

function sameUse(one: NodeUse, other: NodeUse): boolean {
  return (
    one.pods === other.pods && areRecordsEqual(one.requests, other.requests) && sameTexts(one.examples, other.examples)
  );
}

function sameShared(one: readonly OwnerUse[], other: readonly OwnerUse[]): boolean {
  return (
    sameOwners(ownersOf(one), ownersOf(other)) && one.every(({ use }, at) => sameUse(use, other[at]?.use ?? NO_USE))
  );
}

function ownersOf(shared: readonly OwnerUse[]): readonly Owner[] {
  return shared.map(({ owner }) => owner);
}

function sameOwners(one: readonly Owner[], other: readonly Owner[]): boolean {
  return one.length === other.length && one.every((owner, at) => sameOwner(owner, other[at] ?? { kind: "", id: "" }));
}

function sameOwner(one: Owner, other: Owner): boolean {
  return one.kind === other.kind && one.id === other.id;
}

function sameTexts(one: readonly string[], other: readonly string[]): boolean {
  return one.length === other.length && one.every((text, at) => text === other[at]);
}

function sameAmounts(one: Amounts, other: Amounts): boolean {
  if (one === other) return true;
  return one.size === other.size && [...one].every(([resource, amount]) => other.get(resource) === amount);
}

function addRequests(one: NodeUse, other: NodeUse): Readonly<Record<string, number>> {
  const sum: Record<string, number> = { ...one.requests };
  for (const [resource, amount] of Object.entries(other.requests)) sum[resource] = (sum[resource] ?? 0) + amount;
  return sum;
}
