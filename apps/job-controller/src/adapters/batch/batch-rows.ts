import type { V1Job, V1Pod } from "@kubernetes/client-node";
import { labels } from "@muster/proto";
import { grantedNodeOf } from "@muster/resources";
import { QUEUE_GATE, type BatchPod } from "../../domain/batch/batch-job.ts";
import { readBatchJob, type BatchJobRow } from "../../domain/batch/read-batch-job.ts";
import type { KindDefaults } from "../../domain/kind.ts";

type Stored = { readonly uid: string; readonly resourceVersion: string };

/** A batch Job as the cache keeps it. */
export type JobRow = BatchJobRow & { readonly metadata: Stored; readonly labels: Readonly<Record<string, string>> };

/** A pod of a batch Job as the cache keeps it. */
export type PodRow = BatchPod & {
  readonly metadata: Stored;
  /** Its Job. */
  readonly jobUid: string;
  /** `namespace/name` of its Job. */
  readonly jobKey: string;
  readonly ownerId: string;
  readonly gates: readonly { readonly name: string }[];
  /** Of a gated pod, as it is written: what is added when it is bound. */
  readonly affinity: unknown;
};

export function jobRow(job: V1Job, defaults: KindDefaults): JobRow {
  const { uid = "", resourceVersion = "", labels: own = {} } = job.metadata ?? {};
  return { ...readBatchJob(job, defaults), metadata: { uid, resourceVersion }, labels: own };
}

/** `namespace/name`. */
export function keyOfRow({ namespace, name }: Pick<JobRow, "namespace" | "name">): string {
  return `${namespace}/${name}`;
}

export function podRow({ metadata = {}, spec, status }: V1Pod): PodRow {
  const { uid = "", resourceVersion = "", namespace = "" } = metadata;
  const controller = metadata.ownerReferences?.find((owner) => owner.controller === true);
  const isOfJob = controller?.kind === "Job" && controller.apiVersion.startsWith("batch/");
  const gates = spec?.schedulingGates ?? [];
  const gated = gates.some(({ name }) => name === QUEUE_GATE);
  return {
    name: metadata.name ?? "",
    uid,
    metadata: { uid, resourceVersion },
    jobUid: isOfJob ? controller.uid : "",
    jobKey: `${namespace}/${isOfJob ? controller.name : ""}`,
    ownerId: metadata.labels?.[labels.owner] ?? "",
    component: gated ? "" : (metadata.labels?.[labels.component] ?? ""),
    place: spec?.nodeName ?? grantedNodeOf(spec?.affinity),
    scheduled: spec?.nodeName !== undefined,
    gated,
    gates,
    affinity: gated ? spec?.affinity : undefined,
    deleting: metadata.deletionTimestamp !== undefined,
    finished: status?.phase === "Succeeded" || status?.phase === "Failed",
    createdMs: new Date(metadata.creationTimestamp ?? 0).getTime(),
  };
}
