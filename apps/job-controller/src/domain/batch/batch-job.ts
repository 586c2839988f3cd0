import type { Rejection } from "@muster/health";
import { API_GROUP, buildBatchOwnerId, type BatchKind } from "@muster/names";
import type { CrowdedComponent, NodeSelection, Requests } from "@muster/resources";
import { buildMemberUnitId } from "../build-units.ts";
import type { Problem } from "../kind.ts";
import type { QueueChoice } from "@muster/ledger-client/choose-queue";
import type { UnitSeen } from "../snapshot.ts";
import type { StartProgress } from "./start-progress.ts";

/** The scheduling gate of the pods of queued work, until each pod is bound to a granted node. */
export const QUEUE_GATE = `${API_GROUP}/queue`;

/** The requests of each pod of a set: a part of a machine with `shared`, else a whole machine. */
export type PodNeed = {
  readonly pool: string;
  /** See `ReplicaSpec`. */
  readonly otherPools?: readonly string[];
  readonly shared?: Requests | undefined;
  readonly selection?: NodeSelection | undefined;
};

/** Pods of one template: those of a Job, of one replicated job of a JobSet, or a single pod. */
export type PodSet = {
  /** The prefix in the names of the set's places. */
  readonly name: string;
  /** The number of the set's first place; all sets share one numbering. */
  readonly first: number;
  /** The number of pods that the set runs concurrently now: its parallelism, or its remaining completions. */
  readonly pods: number;
  readonly need: PodNeed | { readonly problems: readonly Problem[] };
};

/** The part of a work object that decides about its queue; the object is a Job of the API group `batch`, a JobSet, or a pod. */
export type BatchJob = {
  readonly kind: BatchKind;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** The value of the label `muster.dev/queue`; empty if the work has no queue, and Muster ignores it. */
  readonly queue: string;
  readonly deleting: boolean;
  /** True once the work has completed or failed. */
  readonly finished: boolean;
  /** `spec.suspend`; of a pod, whether it has the gate. */
  readonly suspended: boolean;
  /** True if Kubernetes reports the work as suspended, and counts no active pod: only then its template can be changed. */
  readonly stopped: boolean;
  /** True if Kubernetes has recorded a start time. Before Kubernetes 1.36 the template of such a Job cannot be changed. */
  readonly started: boolean;
  /** True if the template has the gate of queues. */
  readonly gated: boolean;
  readonly sets: readonly PodSet[];
  readonly topology: string | undefined;
  /** The time that the pods need to end after their deletion. */
  readonly graceMs: number;
  readonly start: StartProgress;
};

/** A pod of a Job or JobSet, or the queued pod itself. */
export type BatchPod = {
  /** The name of the pod's set. */
  readonly set: string;
  readonly name: string;
  readonly uid: string;
  /** The place to which the pod is bound; empty if none. */
  readonly component: string;
  /** The node on which the pod runs, or to which it is bound. */
  readonly place: string | undefined;
  /** True once a scheduler has placed the pod. */
  readonly scheduled: boolean;
  readonly gated: boolean;
  readonly deleting: boolean;
  /** True once the pod has succeeded or failed. */
  readonly finished: boolean;
  /** Reason and message with which the kubelet rejected the pod; absent if it did not. */
  readonly rejectedBecause?: string;
  /** True if the pod is ready, or has succeeded. */
  readonly ready: boolean;
  readonly createdMs: number;
};

/** The observed state of a batch Job for one pass; never mutated. */
export type BatchSnapshot = {
  readonly nowMs: number;
  readonly job: BatchJob;
  readonly pods: readonly BatchPod[];
  /** The units of the work in the ledger. */
  readonly units: readonly UnitSeen[];
  readonly queue: QueueChoice;
  readonly priority: number;
  /** The `readyTimeout` of the queue that granted the machines; undefined without such a limit, and without a grant. */
  readonly readyTimeoutMs?: number | undefined;
  /** Granted nodes that can no longer run a pod of the Job. */
  readonly nodesLost: readonly string[];
  /** Places whose foreign pods leave no room for the next pod. Absent if none has such pods. */
  readonly crowded?: readonly CrowdedComponent[];
  /** Recent rejections of pods by the kubelets of their places. Absent if none. */
  readonly rejections?: readonly Rejection[];
  /** Responsive nodes with preempted pods. Absent if no unit is preempted. */
  readonly nodesReady?: readonly string[];
};

/** The name of the only set of a Job, and of the only set of a pod. */
export const ONLY_SET = "pod";

/** Returns the name of the place with this number in a grant. */
export function buildPlaceName(set: string, number: number): string {
  return `${set}-${number}`;
}

/** Returns the set to whose pods a place belongs. */
export function findPlaceSet(component: string): string {
  return component.slice(0, component.lastIndexOf("-"));
}

export function parsePlaceNumber(component: string): number {
  return Number(component.slice(component.lastIndexOf("-") + 1));
}

/** Counts the pods that run concurrently now. */
export function countPods({ sets }: Pick<BatchJob, "sets">): number {
  return sets.reduce((sum, { pods }) => sum + pods, 0);
}

/** Returns the id of the gang's unit. */
export function buildGangId(job: Pick<BatchJob, "kind" | "namespace" | "name" | "uid">): string {
  return buildBatchOwnerId(job.kind, job);
}

/** Returns the id of the unit of one place beside the gang's. The id contains a hash if the name of the place is too long. */
export function buildExtraId(job: BatchJob, component: string): string {
  return buildMemberUnitId(buildGangId(job), buildPlaceName(ONLY_SET, parsePlaceNumber(component)));
}
