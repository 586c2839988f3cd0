import { describeFault, throwFault, type Fault } from "@muster/faults";
import type { KubeCalls, KubeResource } from "../kube-calls.ts";
import { kubeFault } from "../kube-fault.ts";
import type { KubeObject } from "../list-watch.ts";
import type { JobObject } from "./controller-interface.ts";
import { isConflict, isNotFound } from "./member-calls.ts";
import type { RecordEvent } from "./member-control.ts";
import { selects, type Labels } from "./member-labels.ts";
import { controllerOf, isDeleting, labelsOf, type OwnerReference } from "./member.ts";

/** `kept`: it was there as wanted, and nothing was written. */
export type SyncOutcome = "created" | "adopted" | "updated" | "kept";

export type OwnedObjectDeps<Job extends JobObject> = {
  readonly calls: Pick<KubeCalls, "get" | "create" | "patch" | "delete">;
  readonly recordEvent: RecordEvent<Job>;
};

/** An object of which a job has one, with the job's name. */
export type OwnedObject<Object extends KubeObject> = {
  /** In events: `SuccessfulCreatePdb`. */
  readonly title: string;
  readonly resource: KubeResource;
  readonly name: string;
  readonly labels: Labels;
  readonly owner: OwnerReference;
  readonly build: () => Object;
  /** Merge patch of what is not as wanted; undefined when all is. */
  readonly difference: (there: Object) => object | undefined;
  /** The caller's cache has none of that name: it is made at once, and looked for only if it is there after all. */
  readonly isAbsent?: boolean;
  /** Asked before an orphan is adopted; rejects when the job may not. */
  readonly canAdopt: () => Promise<void>;
};

/**
 * Makes the object exist, the job's, and as wanted. An orphan with the job's labels is adopted. Anybody else's is never touched: a Warning event and FaultError
 * conflict, as for one that is still being deleted. Other failures are those of the calls.
 */
export async function syncOwnedObject<Object extends KubeObject, Job extends JobObject>(
  deps: OwnedObjectDeps<Job>,
  job: Job,
  wanted: OwnedObject<Object>,
): Promise<SyncOutcome> {
  const { calls, recordEvent } = deps;
  const { resource, name, title, owner } = wanted;
  const there = wanted.isAbsent === true ? undefined : await calls.get<Object>(resource, name).catch(ifNotFound);
  if (there === undefined) {
    const isMade = await calls.create(resource, wanted.build()).then(
      () => true,
      (error: unknown) => {
        if (wanted.isAbsent === true && kubeFault(error)?.code === "already_exists") return false;
        tellFailure(recordEvent, job, `FailedCreate${title}`, `Error creating: ${name}`, error);
        throw error;
      },
    );
    if (!isMade) return syncOwnedObject(deps, job, { ...wanted, isAbsent: false });
    recordEvent(job, "Normal", `SuccessfulCreate${title}`, `Created ${title}: ${name}`);
    return "created";
  }
  const { uid, resourceVersion, ownerReferences = [] } = there.metadata ?? {};
  const difference = wanted.difference(there);
  const write = (ownership: object): Promise<unknown> => {
    const body = { ...difference, metadata: { ...ownership, uid, resourceVersion } };
    return calls.patch(resource, name, { kind: "merge", body });
  };
  const controller = controllerOf(there);
  if (isDeleting(there)) return conflict(wanted, "is still being deleted");
  if (controller?.uid === owner.uid) {
    if (difference === undefined) return "kept";
    await write({});
    return "updated";
  }
  if (controller === undefined && selects(wanted.labels, labelsOf(there))) {
    await wanted.canAdopt();
    await write({ ownerReferences: [...ownerReferences, owner] });
    return "adopted";
  }
  recordEvent(
    job,
    "Warning",
    `FailedCreate${title}`,
    `Error creating: ${name}: one of that name belongs to somebody else`,
  );
  return conflict(wanted, "belongs to somebody else");
}

/** Deletes the job's own object; true when there was one. One that is missing, on its way out, or somebody else's is none. */
export async function deleteOwnedObject<Job extends JobObject>(
  { calls, recordEvent }: OwnedObjectDeps<Job>,
  job: Job,
  { resource, name, title }: Pick<OwnedObject<KubeObject>, "resource" | "name" | "title">,
): Promise<boolean> {
  const there = await calls.get(resource, name).catch(ifNotFound);
  if (there === undefined || isDeleting(there) || controllerOf(there)?.uid !== job.metadata.uid) return false;
  const uid = there.metadata?.uid;
  try {
    await calls.delete(resource, name, { ...(uid !== undefined && { preconditions: { uid } }) });
  } catch (error) {
    if (isNotFound(error) || isConflict(error)) return false;
    tellFailure(recordEvent, job, `FailedDelete${title}`, `Error deleting: ${name}`, error);
    throw error;
  }
  recordEvent(job, "Normal", `SuccessfulDelete${title}`, `Deleted ${title}: ${name}`);
  return true;
}

function ifNotFound(error: unknown): undefined {
  if (!isNotFound(error)) throw error;
}

function tellFailure<Job extends JobObject>(
  recordEvent: RecordEvent<Job>,
  job: Job,
  reason: string,
  doing: string,
  error: unknown,
): void {
  const fault = kubeFault(error);
  if (fault !== undefined) recordEvent(job, "Warning", reason, `${doing}: ${describeFault(fault)}`);
}

function conflict(
  { title, resource, name }: Pick<OwnedObject<KubeObject>, "title" | "resource" | "name">,
  why: string,
): never {
  const id = `${resource.namespace ?? ""}/${name}`;
  const fault: Fault = { code: "conflict", id: `${title} ${id}`, expectedRevision: 0, actualRevision: 0 };
  return throwFault(fault, { doing: `${title} ${id} ${why}` });
}
