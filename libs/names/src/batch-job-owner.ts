import type { Owner } from "./owners.ts";

/** Kind of the owners of machines for Jobs of the API group `batch`. */
export const BATCH_JOB = "batch-job";

const MAX_NAMESPACE_PART = 16;
const MAX_NAME_PART = 24;
const MAX_UID_PART = 12;

/** The owner id of a Job of the API group `batch`: a DNS label, unique over namespaces because it ends with a part of the uid. */
export function batchJobOwnerId(job: {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}): string {
  const name = [labelPart(job.namespace, MAX_NAMESPACE_PART), labelPart(job.name, MAX_NAME_PART), uidPart(job.uid)];
  return name.join("-");
}

/** Whether the owner is the Job of the API group `batch` with this uid. */
export function isBatchJob({ kind, id }: Owner, uid: string): boolean {
  const part = uidPart(uid);
  return kind === BATCH_JOB && part !== "" && id.endsWith(`-${part}`);
}

/** A part of a DNS label: without the separator of parts of owners, and without `-` at its ends. */
function labelPart(text: string, max: number): string {
  return text
    .replaceAll(/[^a-z0-9]+/g, "-")
    .slice(0, max)
    .replace(/-+$/, "");
}

function uidPart(uid: string): string {
  return uid.replaceAll(/[^a-z0-9]/g, "").slice(0, MAX_UID_PART);
}
