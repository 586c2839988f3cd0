import { API_GROUP, batchJobOwnerId } from "@muster/names";
import type { NodeSelection, Requests } from "@muster/resources";
import { memberUnitId } from "../build-units.ts";
import type { Problem } from "../kind.ts";
import type { QueueChoice } from "@muster/ledger-client/choose-queue";
import type { UnitSeen } from "../snapshot.ts";

/** Scheduling gate of the pods of queued batch Jobs, until each is bound to a granted node. */
export const QUEUE_GATE = `${API_GROUP}/queue`;

/** What each pod of a batch Job requests: a part of a machine with `shared`, else a whole machine. */
export type PodNeed = {
  readonly pool: string;
  readonly shared?: Requests | undefined;
  readonly selection?: NodeSelection | undefined;
};

/** A Job of the API group `batch`, as far as it decides about its queue. */
export type BatchJob = {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** The name in its label `muster.dev/queue`; empty: it has no queue, and Muster leaves it alone. */
  readonly queue: string;
  readonly deleting: boolean;
  /** It is Complete or Failed. */
  readonly finished: boolean;
  /** `spec.suspend`. */
  readonly suspended: boolean;
  /** Kubernetes reports it suspended, and counts no active pod: only then its template can be changed. */
  readonly stopped: boolean;
  /** Kubernetes has recorded a start time. Before Kubernetes 1.36 the template of such a Job cannot be changed. */
  readonly started: boolean;
  /** Its template has the gate of queues. */
  readonly gated: boolean;
  /** Pods that it runs concurrently now: its parallelism, or what is left of its completions. */
  readonly pods: number;
  readonly topology: string | undefined;
  readonly need: PodNeed | { readonly problems: readonly Problem[] };
};

/** A pod that a batch Job controls. */
export type BatchPod = {
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
  /** Granted nodes on which no pod of the Job can be placed any more. */
  readonly nodesLost: readonly string[];
};

/** The place with this number in the grant of a Job. */
export function placeName(index: number): string {
  return `pod-${index}`;
}

/** The id of the unit of the gang. */
export function gangIdOf(job: BatchJob): string {
  return batchJobOwnerId(job);
}

/** The id of the unit of one place beside the gang's. */
export function extraIdOf(job: BatchJob, component: string): string {
  return memberUnitId(gangIdOf(job), component);
}
