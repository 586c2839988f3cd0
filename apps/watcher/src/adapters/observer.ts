import type { Informer } from "@muster/kube";
import type { View } from "@muster/store";
import type { NodeState, WatchedNode } from "../domain/node-state.ts";
import { isOtherPod, isOwned, findChangedNodes, type ClusterPod, type OtherPod } from "../domain/node-use.ts";
import type { NodesMark } from "../domain/plan-mark.ts";
import type { WatcherSnapshot } from "../domain/plan-pass.ts";
import type { PublishedState, InformerProgress, PublishedFields } from "../domain/plan-publish.ts";
import type { PostponedWrite } from "../domain/postpone-short-lived.ts";
import { buildPodKey, type PodState, type RemovedPod, type WatchedPod } from "../domain/pod-state.ts";
import { makePodIndex, type PodIndex } from "./pod-index.ts";
import type { StatePublication } from "./publication.ts";
import { makeRemovedPods } from "./removed-pods.ts";

type Followed<Kept> = Pick<Informer<Kept>, "get" | "list" | "onChange" | "resourceVersion" | "listAgeMs">;

type Sources = {
  readonly pods: Followed<ClusterPod>;
  readonly nodes: Followed<WatchedNode>;
  readonly podSide: Pick<StatePublication<PodState>, "published" | "get" | "isEcho">;
  readonly nodeSide: Pick<StatePublication<NodeState>, "published" | "get" | "isEcho">;
  readonly markSide: Pick<StatePublication<NodesMark>, "published">;
  readonly podView: Pick<View<unknown>, "onChange">;
  readonly nodeView: Pick<View<unknown>, "onChange" | "ageMs">;
  readonly now: () => number;
  /** Namespace whose pods are published, in addition to pods of sessions in other namespaces; absent: all namespaces. */
  readonly namespace?: string;
  /** Called with a removed pod whose last facts were dropped before its end was published. */
  readonly onDropped?: (removed: RemovedPod) => void;
};

/** Takes snapshots of all objects, or of the changes since the last snapshot. */
export type ClusterObserver = {
  /** Calls the listener after each change, including changes by another replica. */
  onChange(listener: () => void): void;
  /** Puts a key whose write failed into the next snapshot. */
  recheck(kind: "pods" | "nodes", key: string): void;
  /** Puts the pod into the first snapshot from this time on. */
  postpone(pod: PostponedWrite): void;
  /** Time until a postponed pod is due; Infinity: none is postponed. */
  dueInMs(): number;
  observe(scope: "all" | "changed"): WatcherSnapshot;
};

/**
 * Creates the observer. A partial snapshot is closed: it contains every pod that uses one of its nodes or is lost with it. Its plan therefore equals that part
 * of the full plan. Facts that only a newer view shows, for example the removal of an object that another replica published, wait for the next full snapshot.
 */
export function makeObserver(sources: Sources): ClusterObserver {
  const { pods, nodes, podSide, nodeSide } = sources;
  const index = makePodIndex();
  const removed = makeRemovedPods(sources);
  const unpublishedEnds = (keys: Iterable<string>): readonly RemovedPod[] =>
    [...keys].flatMap((key) => removed.unpublished(key, podSide.get(key)?.state));
  const { touched, onChange } = touchChanges(sources, index, removed);
  const postponed = new Map<string, number>();

  const everything = (): Part => ({
    ...splitPods(pods.list()),
    removedPods: unpublishedEnds(removed.keys()),
    nodes: nodes.list(),
    publishedPods: podSide.published(),
    publishedNodes: nodeSide.published(),
  });
  const part = (): Part => {
    const { seen, others, podKeys, nodeNames } = closure(touched, index);
    return {
      pods: [...seen],
      others,
      removedPods: unpublishedEnds(podKeys),
      nodes: [...nodeNames].flatMap((name) => nodes.get(name) ?? []),
      publishedPods: [...podKeys].flatMap((key) => podSide.get(key) ?? []),
      publishedNodes: [...nodeNames].flatMap((name) => nodeSide.get(name) ?? []),
    };
  };

  return {
    onChange,
    recheck: (kind, key) => touched[kind].add(key),
    postpone: ({ key, untilMs }) => postponed.set(key, untilMs),
    dueInMs: () => Math.min(...postponed.values()) - sources.now(),
    observe: (scope) => {
      const nowMs = sources.now();
      for (const [key, untilMs] of postponed) {
        if (untilMs <= nowMs) touched.pods.add(key);
        if (touched.pods.has(key)) postponed.delete(key);
      }
      const { pods: seenPods, others, nodes: seenNodes, ...rest } = scope === "all" ? everything() : part();
      touched.pods.clear();
      touched.nodes.clear();
      return {
        nowMs,
        pods: { seen: seenPods, others, sight: getProgress(pods, nowMs) },
        nodes: { seen: seenNodes, sight: getProgress(nodes, nowMs) },
        goneNodes: goneNodes(seenPods, sources),
        ...rest,
        marked: scope === "all" ? publishedMark(sources) : undefined,
      };
    },
  };
}

/** The pods and nodes that changed since the last snapshot. */
type Touched = { readonly pods: Set<string>; readonly nodes: Set<string> };

/** Follows pods and nodes: keeps the index and the removed pods current, and collects the changes for the next snapshot. */
function touchChanges(
  { pods, nodes, podSide, nodeSide, podView, nodeView }: Sources,
  index: PodIndex,
  removed: ReturnType<typeof makeRemovedPods>,
): Pick<ClusterObserver, "onChange"> & { readonly touched: Touched } {
  const touched: Touched = { pods: new Set(), nodes: new Set() };
  const listeners: (() => void)[] = [];
  const ring = (): void => {
    for (const listener of listeners) listener();
  };
  const touch = (kind: "pods" | "nodes", key: string): void => {
    touched[kind].add(key);
    ring();
  };
  for (const pod of pods.list()) index.change(undefined, pod);
  pods.onChange(({ before, after }) => {
    index.change(before, after);
    const [was, is] = [before, after].map((pod) => (pod !== undefined && isOwned(pod) ? pod : undefined));
    removed.change(was, is);
    const changedNodes = findChangedNodes(before, after);
    for (const pod of [was, is]) if (pod !== undefined) touched.pods.add(buildPodKey(pod));
    for (const node of changedNodes) touched.nodes.add(node);
    // Most changes of other pods, for example of their readiness, do not affect any published state.
    if (was !== undefined || is !== undefined || changedNodes.length > 0) ring();
  });
  nodes.onChange(({ key }) => touch("nodes", key));
  podView.onChange((key) => {
    const isNews = !isOwnWriteVisible(podSide, key);
    // Look up the removed pod immediately: a state with a short retention may be gone before the next snapshot.
    removed.unpublished(key, podSide.get(key)?.state);
    if (isNews) touch("pods", key);
  });
  nodeView.onChange((key) => {
    if (!isOwnWriteVisible(nodeSide, key)) touch("nodes", key);
  });
  return { touched, onChange: (listener) => void listeners.push(listener) };
}

/** Returns whether the view shows our own planned write of a live object. After an end, a successor or another end may still have to be written. */
function isOwnWriteVisible<State extends PublishedFields>(
  side: Pick<StatePublication<State>, "get" | "isEcho">,
  key: string,
): boolean {
  return side.isEcho(key) && side.get(key)?.state.deleted === false;
}

type Part = {
  readonly pods: readonly WatchedPod[];
  readonly others: readonly OtherPod[];
  readonly removedPods: readonly RemovedPod[];
  readonly nodes: readonly WatchedNode[];
  readonly publishedPods: readonly PublishedState<PodState>[];
  readonly publishedNodes: readonly PublishedState<NodeState>[];
};

function splitPods(all: readonly ClusterPod[]): Pick<Part, "pods" | "others"> {
  return { pods: all.filter(isOwned), others: all.filter(isOtherPod) };
}

/** Returns the nodes of these pods that are published as removed, with the time of their removal. */
function goneNodes(seen: readonly WatchedPod[], { nodes, nodeSide }: Sources): ReadonlyMap<string, number> {
  const gone = new Map<string, number>();
  for (const { node } of seen) {
    if (node === "" || nodes.get(node) !== undefined) continue;
    const published = nodeSide.get(node)?.state;
    if (published?.deleted === true) gone.set(node, published.observedAtMs);
  }
  return gone;
}

function publishedMark({ markSide, nodeView }: Sources): WatcherSnapshot["marked"] {
  const mark = markSide.published().at(0);
  return {
    mark: mark && { atMs: mark.state.atMs, revision: mark.revision },
    bucketCurrent: nodeView.ageMs() === 0,
  };
}

/** Returns the touched objects, and all other objects that a pass over them requires. */
function closure(
  touched: Touched,
  index: PodIndex,
): {
  readonly seen: ReadonlySet<WatchedPod>;
  readonly others: readonly OtherPod[];
  readonly podKeys: Set<string>;
  readonly nodeNames: Set<string>;
} {
  const podKeys = new Set(touched.pods);
  const nodeNames = new Set(touched.nodes);
  const seen = new Set<WatchedPod>();
  for (let before = -1; before < podKeys.size + nodeNames.size;) {
    before = podKeys.size + nodeNames.size;
    for (const key of podKeys) for (const pod of index.byKey(key)) seen.add(pod);
    for (const name of nodeNames) for (const pod of index.onNode(name)) if (isOwned(pod)) podKeys.add(buildPodKey(pod));
  }
  const others = [...nodeNames].flatMap((name) => index.onNode(name).filter(isOtherPod));
  return { seen, others, podKeys, nodeNames };
}

function getProgress(followed: Followed<unknown>, nowMs: number): InformerProgress {
  return { version: Number(followed.resourceVersion() ?? 0), listedAtMs: nowMs - followed.listAgeMs() };
}
