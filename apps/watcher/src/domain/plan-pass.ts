import { buildNodeState, nextRegroupMs, buildNodeRules, type NodeState, type WatchedNode } from "./node-state.ts";
import { buildNodeUses, NO_USES, type OtherPod } from "./node-use.ts";
import { planMark, type MarkStep, type NodesMark } from "./plan-mark.ts";
import {
  nextForgetMs,
  planPublish,
  type DesiredState,
  type PublishedState,
  type PublishStep,
  type InformerProgress,
} from "./plan-publish.ts";
import { postponeShortLivedStates, type PostponedWrite } from "./postpone-short-lived.ts";
import {
  buildPodState,
  buildRemovedState,
  buildPodKey,
  isPublished,
  podRules,
  type PodState,
  type RemovedPod,
  type WatchedPod,
  withTaints,
} from "./pod-state.ts";

/** The cluster as one watcher observes it, or a part of it that contains every node with all its pods. Built once per pass; never mutated. */
export type WatcherSnapshot = {
  readonly nowMs: number;
  readonly pods: {
    readonly seen: readonly WatchedPod[];
    /** Foreign pods, which count only as uses of nodes. */
    readonly others: readonly OtherPod[];
    readonly sight: InformerProgress;
  };
  /** Removed pods whose end is not published yet. */
  readonly removedPods: readonly RemovedPod[];
  readonly nodes: { readonly seen: readonly WatchedNode[]; readonly sight: InformerProgress };
  /** Missing nodes of pods, with the time of their removal. A node that was never published may merely be too new for this view. */
  readonly goneNodes: ReadonlyMap<string, number>;
  readonly publishedPods: readonly PublishedState<PodState>[];
  readonly publishedNodes: readonly PublishedState<NodeState>[];
  /** The mark, and whether the view of the node bucket is current. Undefined in a partial snapshot. */
  readonly marked:
    | { readonly mark: (NodesMark & { readonly revision: number }) | undefined; readonly bucketCurrent: boolean }
    | undefined;
};

export type WatcherPolicy = {
  /** Namespace whose pods are published, in addition to pods of sessions in other namespaces. All other pods count only as uses of nodes. */
  readonly namespace: string;
  /** Time for which start problems of a pod may last before the pod counts as failed. */
  readonly startGraceMs: number;
  /** Time for which the node of a pod may be missing before the pod counts as failed. */
  readonly nodeGraceMs: number;
  /** Time for which the state of a removed pod or node is kept. */
  readonly keepDeletedMs: number;
};

export type PassPlan = {
  readonly pods: readonly PublishStep<PodState>[];
  readonly nodes: readonly PublishStep<NodeState>[];
  /** Pods whose write waits, because the next state usually replaces it. */
  readonly postponed: readonly PostponedWrite[];
  /** The mark is written after all nodes, and only if no write of a node failed. */
  readonly mark: MarkStep | undefined;
  /** Time in ms since 1970 at which the next pass is due if no event arrives; Infinity: never. */
  readonly nextMs: number;
};

/** Plans all writes of one pass. A pass over the result of a plan plans no write. */
export function planPass(snapshot: WatcherSnapshot, policy: WatcherPolicy): PassPlan {
  const { nowMs, pods, removedPods, nodes, publishedPods, publishedNodes, marked } = snapshot;
  const taints = new Map(nodes.seen.map((node) => [node.name, node.taints]));
  const wanted = desiredPods(snapshot, policy, taints);
  const removed = removedPods
    .filter(({ pod }) => isPublished(pod, policy.namespace))
    .map((each) => ({ key: buildPodKey(each.pod), state: withTaints(buildRemovedState(each, policy), taints) }));
  const podSnapshot = { nowMs, sight: pods.sight, desired: wanted.desired, removed, published: publishedPods };
  const wantedNodes = desiredNodes(snapshot);
  const nodeSnapshot = { nowMs, sight: nodes.sight, desired: wantedNodes, published: publishedNodes };
  const marking = marked === undefined ? undefined : planMark({ nowMs, ...marked });
  const { due, postponed } = postponeShortLivedStates(planPublish(podSnapshot, policy, podRules), podSnapshot);
  return {
    pods: due,
    postponed,
    nodes: planPublish(nodeSnapshot, policy, buildNodeRules(pods.sight)),
    mark: marking?.step,
    nextMs: Math.min(
      wanted.nextMs,
      marking?.nextMs ?? Infinity,
      nextRegroupMs(wantedNodes, publishedNodes, pods.sight),
      nextForgetMs(publishedPods, policy),
      nextForgetMs(publishedNodes, policy),
    ),
  };
}

type NodeTaints = ReadonlyMap<string, WatchedNode["taints"]>;

function desiredPods(
  snapshot: WatcherSnapshot,
  policy: WatcherPolicy,
  taints: NodeTaints,
): { readonly desired: readonly DesiredState<PodState>[]; readonly nextMs: number } {
  const { nowMs, pods, goneNodes } = snapshot;
  const desired: DesiredState<PodState>[] = [];
  let nextMs = Infinity;
  for (const pod of pods.seen) {
    if (!isPublished(pod, policy.namespace)) continue;
    const nodeGoneMs = goneNodes.get(pod.node);
    const { state, reevaluateAtMs = Infinity } = buildPodState(pod, { ...policy, nowMs, nodeGoneMs });
    desired.push({ key: buildPodKey(pod), state: withTaints(state, taints), createdAtMs: pod.createdAtMs });
    nextMs = Math.min(nextMs, reevaluateAtMs);
  }
  return { desired, nextMs };
}

function desiredNodes({ nowMs, pods, nodes }: WatcherSnapshot): readonly DesiredState<NodeState>[] {
  const uses = buildNodeUses([...pods.seen, ...pods.others]);
  return nodes.seen.map((node) => ({
    key: node.name,
    createdAtMs: node.createdAtMs,
    state: buildNodeState(node, {
      uses: uses.get(node.name) ?? NO_USES,
      occupantsVersion: pods.sight.version,
      nowMs,
    }),
  }));
}
