import { API_GROUP } from "@muster/names";
import type { PodTemplate, ReplicaSpec } from "./job.ts";
import type { Fields } from "./read-fields.ts";

/** Annotation of a job: with `false`, the ledger does not preempt it if its queue permits that. */
export const PREEMPTIBLE_ANNOTATION = `${API_GROUP}/preemptible`;

/** Whether the job may be preempted. An invalid annotation is noted as a problem. */
export function readIsPreemptible(metadata: Fields | undefined): boolean {
  return metadata?.object("annotations")?.oneOf(PREEMPTIBLE_ANNOTATION, ["true", "false"]) !== "false";
}

/** As Kubernetes sets it. */
const DEFAULT_GRACE_SECONDS = 30;
/** Pods disappear a moment after their containers, and are noticed another moment later. */
const MARGIN_MS = 10_000;
/** The ledger refuses requests with a longer one. */
const MAX_GRACE_MS = 3_600_000;

/** How long the pods of the job take to end once they are deleted, at most an hour: the longest grace of its templates and a little more. */
export function graceOf({ replicas }: { readonly replicas: readonly Pick<ReplicaSpec, "template">[] }): number {
  const longestMs = Math.max(0, ...replicas.map(({ template }) => graceSecondsOf(template.spec))) * 1000;
  return Math.min(longestMs + MARGIN_MS, MAX_GRACE_MS);
}

/** The API server refuses pods with another form of it. */
function graceSecondsOf({ terminationGracePeriodSeconds: seconds }: PodTemplate["spec"]): number {
  return typeof seconds === "number" && Number.isSafeInteger(seconds) ? seconds : DEFAULT_GRACE_SECONDS;
}
