import { decidePodHealth, type Health, type PodFacts } from "@muster/health";
import { isNamespaceOfOwner } from "@muster/names";
import type { Amounts, Taint } from "@muster/resources";
import type { PublishRules, PublishedFields } from "./plan-publish.ts";

export type Owner = { readonly kind: string; readonly id: string };

/** The fields of a pod with Muster's labels that the watcher keeps. */
export type WatchedPod = {
  readonly owner: Owner;
  readonly component: string;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: number;
  readonly createdAtMs: number;
  readonly podIp: string;
  readonly node: string;
  readonly deleting: boolean;
  /** True if no other owner shares the pod's machine. */
  readonly exclusive: boolean;
  /** True if every container has ended permanently: the pod no longer needs its machine. */
  readonly finished: boolean;
  /** Requests of the pod on its node. */
  readonly requests: Amounts;
  /** Name of the container whose state decides; absent: the first one. */
  readonly mainContainer: string | undefined;
  readonly facts: PodFacts;
};

/** The last facts of a pod that the API server no longer has. */
export type RemovedPod = { readonly pod: WatchedPod; readonly removedAtMs: number };

export type PodState = PublishedFields & {
  readonly owner: Owner;
  readonly component: string;
  readonly namespace: string;
  readonly pod: string;
  readonly podIp: string;
  readonly node: string;
  readonly health: Health;
  readonly reason: string;
  readonly message: string;
  readonly deleting: boolean;
  readonly exitCode: number | undefined;
};

/** Builds the key under which a pod's state is published. */
export function buildPodKey(pod: WatchedPod): string {
  return `${pod.owner.kind}.${pod.owner.id}.${pod.name}`;
}

/**
 * Returns whether the state of the pod is published. The key of the pod, its owner and name, is unique only among pods of one namespace (see
 * `isNamespaceOfOwner`).
 */
export function isPublished({ owner, namespace }: Pick<WatchedPod, "owner" | "namespace">, own: string): boolean {
  return isNamespaceOfOwner(owner, namespace, own);
}

/** Returns the current state of a pod, and the time at which the state changes without an event. */
export function buildPodState(
  pod: WatchedPod,
  policy: {
    readonly startGraceMs: number;
    readonly nodeGraceMs: number;
    readonly nowMs: number;
    /** Time since which the pod's node is missing; undefined: the node exists. */
    readonly nodeGoneMs: number | undefined;
  },
): { readonly state: PodState; readonly reevaluateAtMs: number | undefined } {
  const { mainContainer } = pod;
  const { startGraceMs, nodeGraceMs, nowMs, nodeGoneMs } = policy;
  const verdict = decidePodHealth(pod.facts, {
    startGraceMs,
    nowMs,
    ...(mainContainer !== undefined && { mainContainer }),
    // A pod may be bound to a node that was removed before the pod's creation.
    ...(nodeGoneMs !== undefined && {
      nodeGone: { sinceMs: Math.max(nodeGoneMs, pod.createdAtMs), graceMs: nodeGraceMs },
    }),
  });
  const state: PodState = {
    owner: pod.owner,
    component: pod.component,
    namespace: pod.namespace,
    pod: pod.name,
    uid: pod.uid,
    resourceVersion: pod.resourceVersion,
    podIp: pod.podIp,
    node: pod.node,
    health: verdict.health,
    reason: verdict.reason,
    message: verdict.message,
    exitCode: verdict.exitCode,
    deleting: pod.deleting,
    deleted: false,
    observedAtMs: policy.nowMs,
  };
  return { state, reevaluateAtMs: verdict.reevaluateAtMs };
}

/** Returns the final state of a removed pod, as of its removal: later time limits do not apply. */
export function buildRemovedState(
  { pod, removedAtMs }: RemovedPod,
  policy: { readonly startGraceMs: number; readonly nodeGraceMs: number },
): PodState {
  return buildPodState(pod, { ...policy, nowMs: removedAtMs, nodeGoneMs: undefined }).state;
}

/** Adds the node's taints to the state of a pod that is evicted because of them; Kubernetes names at most the node. */
export function withTaints(state: PodState, taintsByNode: ReadonlyMap<string, readonly Required<Taint>[]>): PodState {
  if (state.reason !== "DeletionByTaintManager") return state;
  const taints = (taintsByNode.get(state.node) ?? []).filter(({ effect }) => effect === "NoExecute");
  if (taints.length === 0) return state;
  const named = taints.map(({ key, value, effect }) => `${key}${value === "" ? "" : `=${value}`}:${effect}`);
  return { ...state, message: `${state.message} (${named.join(", ")})` };
}

export const podRules: PublishRules<PodState> = {
  merge: ({ published, desired, newer }) => {
    if (!newer) return published;
    if (published.uid !== desired.uid || !isFinal(published.health)) return desired;
    // A published outcome is final: a reader may have acted on it.
    const { health, reason, message, exitCode = desired.exitCode } = published;
    return { ...desired, health, reason, message, exitCode };
  },
  gone: (last) => ({
    ...last,
    ...(isFinal(last.health) ? {} : { health: "FAILED", reason: "Deleted", message: "the pod is gone" }),
    deleting: false,
    deleted: true,
  }),
  same: (one, other) => FIELDS.every((field) => one[field] === other[field]) && sameOwner(one.owner, other.owner),
};

const FIELDS = [
  "component",
  "namespace",
  "pod",
  "uid",
  "podIp",
  "node",
  "health",
  "reason",
  "message",
  "deleting",
  "deleted",
  "exitCode",
] as const satisfies readonly (keyof PodState)[];

function isFinal(health: Health): boolean {
  return health === "SUCCEEDED" || health === "FAILED";
}

function sameOwner(one: Owner, other: Owner): boolean {
  return one.kind === other.kind && one.id === other.id;
}
