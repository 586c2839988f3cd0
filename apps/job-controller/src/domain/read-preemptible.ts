import { API_GROUP } from "@muster/names";
import type { PodTemplate, ReplicaSpec } from "./job.ts";
import type { Fields } from "./read-fields.ts";

/** Annotation of a job: `false` requests that the ledger does not preempt it, which its queue may permit. */
export const PREEMPTIBLE_ANNOTATION = `${API_GROUP}/preemptible`;

/** Reads whether the job may be preempted. Notes an invalid annotation as a problem. */
export function readIsPreemptible(metadata: Fields | undefined): boolean {
  return metadata?.object("annotations")?.oneOf(PREEMPTIBLE_ANNOTATION, ["true", "false"]) !== "false";
}

/** Kubernetes' own default. */
const DEFAULT_GRACE_SECONDS = 30;
/** Allows for the time until pods disappear after their containers, and until the controller observes that. */
const MARGIN_MS = 10_000;
/** The ledger refuses requests with a longer grace. */
const MAX_GRACE_MS = 3_600_000;

/** Returns the time that the pods of the job need to end after their deletion, at most an hour: the longest grace of its templates plus a margin. */
export function findGracePeriod({ replicas }: { readonly replicas: readonly Pick<ReplicaSpec, "template">[] }): number {
  const longestMs = Math.max(0, ...replicas.map(({ template }) => getGraceSeconds(template.spec))) * 1000;
  return Math.min(longestMs + MARGIN_MS, MAX_GRACE_MS);
}

/** The API server refuses pods with any other value of the field. */
function getGraceSeconds({ terminationGracePeriodSeconds: seconds }: PodTemplate["spec"]): number {
  return typeof seconds === "number" && Number.isSafeInteger(seconds) ? seconds : DEFAULT_GRACE_SECONDS;
}
