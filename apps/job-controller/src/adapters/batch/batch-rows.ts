import type { V1Job, V1Pod, V1PodStatus } from "@kubernetes/client-node";
import { describeRejection } from "@muster/health";
import type { KubeObject, KubeResource } from "@muster/kube";
import { BATCH_JOB, buildBatchOwnerId, JOB_SET, QUEUED_POD, type BatchKind } from "@muster/names";
import { labels } from "@muster/proto";
import { findGrantedNode } from "@muster/resources";
import { ONLY_SET, type BatchPod } from "../../domain/batch/batch-job.ts";
import {
  isJob,
  isQueueGate,
  readBatchJob,
  readJobSet,
  readQueuedPod,
  type BatchJobRow,
  type JobSetObject,
} from "../../domain/batch/read-batch-job.ts";
import type { KindDefaults } from "../../domain/kind.ts";

type Stored = { readonly uid: string; readonly resourceVersion: string };

/** Work of Kubernetes as a cache keeps it: a batch Job, a JobSet or a pod. */
export type JobRow = BatchJobRow & { readonly metadata: Stored; readonly labels: Readonly<Record<string, string>> };

/** A pod of a Job or JobSet, or the queued pod itself, as a cache keeps it. */
export type PodRow = BatchPod & {
  readonly metadata: Stored;
  readonly namespace: string;
  /** The uid of the Job that controls the pod. */
  readonly jobUid: string;
  readonly jobName: string;
  readonly ownerId: string;
  readonly gates: readonly { readonly name: string }[];
  /** The affinity of a gated pod as its author wrote it, without the part that binding adds. */
  readonly affinity: unknown;
};

/** A pod with a queue and without an owner: the pod itself is the work. */
export type QueuedPodRow = { readonly metadata: Stored; readonly job: JobRow; readonly pod: PodRow };

/** The resources of the API server for each kind of owner. */
export const BATCH_RESOURCES: Readonly<Record<BatchKind, Omit<KubeResource, "namespace"> & { readonly kind: string }>> =
  {
    [BATCH_JOB]: { apiVersion: "batch/v1", kind: "Job", plural: "jobs" },
    [JOB_SET]: { apiVersion: "jobset.x-k8s.io/v1alpha2", kind: "JobSet", plural: "jobsets" },
    [QUEUED_POD]: { apiVersion: "v1", kind: "Pod", plural: "pods" },
  };

export type StoredJobSet = JobSetObject & KubeObject;

export function toJobRow(job: V1Job, defaults: KindDefaults): JobRow {
  return { ...readBatchJob(job, defaults), ...readStored(job) };
}

export function toJobSetRow(jobSet: StoredJobSet, defaults: KindDefaults): JobRow {
  return { ...readJobSet(jobSet, defaults), ...readStored(jobSet) };
}

/** Returns undefined if the pod has no queue of its own. */
export function toQueuedPodRow(pod: V1Pod, defaults: KindDefaults): QueuedPodRow | undefined {
  const row = readQueuedPod(pod, defaults, pod.metadata?.labels?.[labels.ownerKind] === QUEUED_POD);
  if (row === undefined) return undefined;
  const stored = readStored(pod);
  return { metadata: stored.metadata, job: { ...row, ...stored }, pod: toPodRow(pod) };
}

function readStored({ metadata }: KubeObject): Pick<JobRow, "metadata" | "labels"> {
  const { uid = "", resourceVersion = "", labels: own = {} } = metadata ?? {};
  return { metadata: { uid, resourceVersion }, labels: own };
}

/** Returns `kind/namespace/name`. */
export function buildRowKey({ kind, namespace, name }: Pick<JobRow, "kind" | "namespace" | "name">): string {
  return `${kind}/${namespace}/${name}`;
}

export function buildRowOwnerId(row: Pick<JobRow, "kind" | "namespace" | "name" | "uid">): string {
  return buildBatchOwnerId(row.kind, row);
}

export function toPodRow({ metadata = {}, spec, status }: V1Pod): PodRow {
  const { uid = "", resourceVersion = "", namespace = "" } = metadata;
  const job = metadata.ownerReferences?.find((owner) => owner.controller === true && isJob(owner));
  const gates = spec?.schedulingGates ?? [];
  const gated = gates.some(isQueueGate);
  return {
    set: ONLY_SET,
    namespace,
    name: metadata.name ?? "",
    uid,
    metadata: { uid, resourceVersion },
    jobUid: job?.uid ?? "",
    jobName: job?.name ?? "",
    ownerId: metadata.labels?.[labels.owner] ?? "",
    component: gated ? "" : (metadata.labels?.[labels.component] ?? ""),
    place: spec?.nodeName ?? findGrantedNode(spec?.affinity),
    scheduled: spec?.nodeName !== undefined,
    gated,
    gates,
    affinity: gated ? spec?.affinity : undefined,
    deleting: metadata.deletionTimestamp !== undefined,
    finished: status?.phase === "Succeeded" || status?.phase === "Failed",
    ...findRejection(status),
    ready: status?.phase === "Succeeded" || (status?.phase === "Running" && isReady(status)),
    createdMs: new Date(metadata.creationTimestamp ?? 0).getTime(),
  };
}

/** Returns why the kubelet rejected the pod before a container started. */
function findRejection(status: V1PodStatus = {}): Pick<PodRow, "rejectedBecause"> {
  const { phase, containerStatuses = [] } = status;
  const text = phase === "Failed" && containerStatuses.length === 0 ? describeRejection(status) : undefined;
  return text === undefined ? {} : { rejectedBecause: text };
}

function isReady({ conditions = [] }: V1PodStatus): boolean {
  return conditions.some(({ type, status }) => type === "Ready" && status === "True");
}
