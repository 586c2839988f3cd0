import { API_GROUP, batchOwnerId, type BatchKind } from "@muster/names";
import type { NodeSelection, Requests } from "@muster/resources";
import { memberUnitId } from "../build-units.ts";
import type { Problem } from "../kind.ts";
import type { QueueChoice } from "@muster/ledger-client/choose-queue";
import type { UnitSeen } from "../snapshot.ts";

/** Scheduling gate of the pods of queued work of Kubernetes, until each is bound to a granted node. */
export const QUEUE_GATE = `${API_GROUP}/queue`;

/** The requests of each pod of a set: a part of a machine with `shared`, else a whole machine. */
export type PodNeed = {
  readonly pool: string;
  /** As in `ReplicaSpec`. */
  readonly otherPools?: readonly string[];
  readonly shared?: Requests | undefined;
  readonly selection?: NodeSelection | undefined;
};

/** Pods of one template: those of a Job, of one replicated job of a JobSet, or one pod. */
export type PodSet = {
  /** Begins the names of the places of its pods. */
  readonly name: string;
  /** The number of its first place; places are numbered over all sets. */
  readonly first: number;
  /** Pods that it runs concurrently now: its parallelism, or what is left of its completions. */
  readonly pods: number;
  readonly need: PodNeed | { readonly problems: readonly Problem[] };
};

/** Work of Kubernetes, as far as it decides about its queue: a Job of the API group `batch`, a JobSet, or a pod. */
export type BatchJob = {
  readonly kind: BatchKind;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** The name in its label `muster.dev/queue`; empty: it has no queue, and Muster leaves it alone. */
  readonly queue: string;
  readonly deleting: boolean;
  /** It has completed or failed. */
  readonly finished: boolean;
  /** `spec.suspend`; of a pod, that it has its gate. */
  readonly suspended: boolean;
  /** Kubernetes reports it suspended, and counts no active pod: only then its template can be changed. */
  readonly stopped: boolean;
  /** Kubernetes has recorded a start time. Before Kubernetes 1.36 the template of such a Job cannot be changed. */
  readonly started: boolean;
  /** Its template has the gate of queues. */
  readonly gated: boolean;
  readonly sets: readonly PodSet[];
  readonly topology: string | undefined;
  /** How long its pods take to end once they are deleted. */
  readonly graceMs: number;
};

/** A pod of a Job or JobSet, or the pod itself. */
export type BatchPod = {
  /** The name of its set. */
  readonly set: string;
  readonly name: string;
  readonly uid: string;
  /** The place that it is bound to; empty: none yet. */
  readonly component: string;
  /** The node that it runs on or is bound to. */
  readonly place: string | undefined;
  /** A scheduler has placed it. */
  readonly scheduled: boolean;
  readonly gated: boolean;
  readonly deleting: boolean;
  /** It has succeeded or failed. */
  readonly finished: boolean;
  readonly createdMs: number;
};

/** The observed state of a batch Job for one pass; never mutated. */
export type BatchSnapshot = {
  readonly nowMs: number;
  readonly job: BatchJob;
  readonly pods: readonly BatchPod[];
  /** Its units in the ledger. */
  readonly units: readonly UnitSeen[];
  readonly queue: QueueChoice;
  readonly priority: number;
  /** Granted nodes that can no longer take a pod of the Job. */
  readonly nodesLost: readonly string[];
  /** Nodes that answer, of pods that are preempted. Absent: no unit is preempted. */
  readonly nodesReady?: readonly string[];
};

/** The name of the only set of a Job, and of that of a pod. */
export const ONLY_SET = "pod";

/** The place with this number in a grant. */
export function placeName(set: string, number: number): string {
  return `${set}-${number}`;
}

/** The set for whose pods a place is. */
export function setOfPlace(component: string): string {
  return component.slice(0, component.lastIndexOf("-"));
}

export function numberOfPlace(component: string): number {
  return Number(component.slice(component.lastIndexOf("-") + 1));
}

/** Pods that run concurrently now. */
export function countPods({ sets }: Pick<BatchJob, "sets">): number {
  return sets.reduce((sum, { pods }) => sum + pods, 0);
}

/** The id of the unit of the gang. */
export function gangIdOf(job: Pick<BatchJob, "kind" | "namespace" | "name" | "uid">): string {
  return batchOwnerId(job.kind, job);
}

/** The id of the unit of one place beside the gang's. The name of the place may be too long for it. */
export function extraIdOf(job: BatchJob, component: string): string {
  return memberUnitId(gangIdOf(job), placeName(ONLY_SET, numberOfPlace(component)));
}
