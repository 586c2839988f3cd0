import type { KubeCalls, KubeResource } from "@muster/kube";
import { annotations } from "@muster/proto";
import type { JobStatus } from "../domain/job-status.ts";
import type { JobResource, JobRow } from "./read-job.ts";
import { progressJson, publicJson, statusJson, type StatusJson } from "./status-json.ts";

export type StatusDeps = { readonly calls: Pick<KubeCalls, "patch"> };

/** Muster's own resource has a place in its status for everything; those of others have not. */
const OWN_GROUP = "muster.dev";

/**
 * Writes a status in place of the one that the row was read with, and returns the resource as it is then. Rejects with a conflict when the resource has changed since.
 * What others' resources have no place for goes first into an annotation: the rest follows from it, and not the other way round.
 */
export async function writeStatus(
  { calls }: StatusDeps,
  resource: KubeResource,
  job: JobRow,
  status: JobStatus,
): Promise<JobResource> {
  const { name } = job.metadata;
  if (job.kind.group === OWN_GROUP) {
    return patchStatus(calls, resource, job, job.metadata.resourceVersion, statusJson(status, job.shape));
  }
  let { resourceVersion } = job.metadata;
  const progress = progressJson(status);
  if (progress !== job.metadata.annotations?.[annotations.progress]) {
    const metadata = { resourceVersion, annotations: { [annotations.progress]: progress ?? null } };
    const patched = await calls.patch<JobResource>(resource, name, { kind: "merge", body: { metadata } });
    resourceVersion = patched.metadata.resourceVersion;
  }
  return patchStatus(calls, resource, job, resourceVersion, publicJson(status, job.shape));
}

function patchStatus(
  calls: StatusDeps["calls"],
  resource: KubeResource,
  job: JobRow,
  resourceVersion: string | undefined,
  status: StatusJson,
): Promise<JobResource> {
  // A merge keeps what it is not told about: replica types that are gone have to be named.
  const gone = Object.keys(job.resource.status?.replicaStatuses ?? {}).filter(
    (key) => !(key in (status.replicaStatuses ?? {})),
  );
  const replicaStatuses = { ...status.replicaStatuses, ...Object.fromEntries(gone.map((key) => [key, null])) };
  const body = { metadata: { resourceVersion }, status: { ...status, replicaStatuses } };
  return calls.patch<JobResource>(resource, job.metadata.name, { kind: "merge", body }, { subresource: "status" });
}
