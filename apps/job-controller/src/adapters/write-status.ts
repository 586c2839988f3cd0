import { toKubeFault, unlessMissing, type KubeCalls, type KubeResource } from "@muster/kube";
import { annotations } from "@muster/proto";
import type { JobStatus } from "../domain/job-status.ts";
import { JOB_KIND } from "../domain/kind-job.ts";
import type { JobResource, JobRow } from "./read-job.ts";
import {
  buildProgressJson,
  buildPublicJson,
  readStatus,
  buildStatusJson,
  listStatusKeys,
  type StatusJson,
} from "./status-json.ts";

export type StatusDeps = {
  readonly calls: Pick<KubeCalls, "get" | "patch">;
  /** Called if the API server dropped fields of the status, because its definition of Muster's own resource is older than this process. */
  readonly onDropped: () => void;
};

/**
 * Replaces the status with which the row was read, and returns the resulting resource; undefined if it was deleted meanwhile. Rejects with a conflict if the
 * resource has changed since. Fields that other projects' resources lack are first written to an annotation, because the rest follows from them. A resource of
 * Muster with an older definition gets the annotation too, once an answer shows dropped fields: a restart budget must not be lost.
 */
export async function writeStatus(
  deps: StatusDeps,
  resource: KubeResource,
  job: JobRow,
  status: JobStatus,
): Promise<JobResource | undefined> {
  try {
    return await write(deps, resource, job, status);
  } catch (error) {
    // A definition without a status also causes not_found, which does not prove that the job no longer exists.
    if (toKubeFault(error)?.code === "not_found" && (await isGone(deps, resource, job))) return undefined;
    throw error;
  }
}

async function isGone({ calls }: StatusDeps, resource: KubeResource, { metadata }: JobRow): Promise<boolean> {
  const present = await unlessMissing(calls.get(resource, metadata.name));
  return present?.metadata?.uid !== metadata.uid;
}

async function write(
  { calls, onDropped }: StatusDeps,
  resource: KubeResource,
  job: JobRow,
  status: JobStatus,
): Promise<JobResource> {
  const { resourceVersion } = job.metadata;
  // Only Muster's own resource has a status field for every value.
  const isOwn = job.kind.group === JOB_KIND.group;
  const json = isOwn ? buildStatusJson(status, job.shape) : buildPublicJson(status, job.shape);
  if (isOwn && job.metadata.annotations?.[annotations.progress] === undefined) {
    const written = await patchStatus(calls, resource, job, resourceVersion, json);
    const kept = buildProgressJson(readStatus(written.status, undefined, job.shape));
    if (kept === buildProgressJson(status)) return written;
    onDropped();
    return annotate(calls, resource, written, buildProgressJson(status));
  }
  const progress = buildProgressJson(status);
  const isSame = progress === job.metadata.annotations?.[annotations.progress];
  const before = isSame ? job.resource : await annotate(calls, resource, job.resource, progress);
  return patchStatus(calls, resource, job, before.metadata.resourceVersion, json);
}

function annotate(
  calls: StatusDeps["calls"],
  resource: KubeResource,
  { metadata: { name, resourceVersion } }: JobResource,
  progress: string | undefined,
): Promise<JobResource> {
  const metadata = { resourceVersion, annotations: { [annotations.progress]: progress ?? null } };
  return calls.patch<JobResource>(resource, name, { kind: "merge", body: { metadata } });
}

function patchStatus(
  calls: StatusDeps["calls"],
  resource: KubeResource,
  job: JobRow,
  resourceVersion: string | undefined,
  status: StatusJson,
): Promise<JobResource> {
  // A merge patch keeps unnamed fields, so removed types are set to null.
  const gone = listStatusKeys(job.resource.status).filter((key) => !(key in (status.replicaStatuses ?? {})));
  const replicaStatuses = { ...status.replicaStatuses, ...Object.fromEntries(gone.map((key) => [key, null])) };
  const body = { metadata: { resourceVersion }, status: { ...status, replicaStatuses } };
  return calls.patch<JobResource>(resource, job.metadata.name, { kind: "merge", body }, { subresource: "status" });
}
