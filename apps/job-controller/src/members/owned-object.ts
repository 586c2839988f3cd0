import { describeFault, throwFault, type Fault } from "@muster/faults";
import { toKubeFault, unlessMissing, type KubeCalls, type KubeObject, type KubeResource } from "@muster/kube";
import { matchesSelector } from "../domain/member-labels.ts";
import { findController, isDeleting, getLabels } from "../domain/ownership.ts";
import type { Ownership } from "./claim-members.ts";
import { isConflict, isNotFound } from "./member-calls.ts";
import type { ReportEvent } from "./member-control.ts";

/** `kept` means that the object existed as desired, and no write was sent. */
export type SyncOutcome = "created" | "adopted" | "updated" | "kept";

export type OwnedObjectDeps = {
  readonly calls: Pick<KubeCalls, "get" | "create" | "patch" | "delete">;
  readonly report: ReportEvent;
};

/** One object that a job has under its own name. */
type OwnedObject<Object extends KubeObject> = Ownership & {
  /** The name in events: `SuccessfulCreatePdb`. */
  readonly title: string;
  readonly resource: KubeResource;
  readonly name: string;
  /** True if the caller's cache has no object of that name: the object is created without a read. It is read only if it exists after all. */
  readonly isAbsent?: boolean;
  readonly build: () => Object;
  /** Returns the merge patch from the present object to the desired one; undefined if they are equal. */
  readonly difference: (present: Object) => object | undefined;
};

/**
 * Ensures that the object exists as desired, owned by the job. Adopts an orphan with the job's labels. Never changes the object of another owner: that object
 * causes a Warning event and a FaultError conflict, as does an object that is being deleted. Other failures are those of the calls.
 */
export async function syncOwnedObject<Object extends KubeObject>(
  { calls, report }: OwnedObjectDeps,
  wanted: OwnedObject<Object>,
): Promise<SyncOutcome> {
  const { resource, name, title, owner } = wanted;
  const present = wanted.isAbsent === true ? undefined : await unlessMissing(calls.get<Object>(resource, name));
  if (present === undefined) {
    const isCreated = await calls.create(resource, wanted.build()).then(
      () => true,
      (error: unknown) => {
        if (wanted.isAbsent === true && toKubeFault(error)?.code === "already_exists") return false;
        reportFailure(report, `FailedCreate${title}`, `Error creating: ${name}`, error);
        throw error;
      },
    );
    if (!isCreated) return syncOwnedObject({ calls, report }, { ...wanted, isAbsent: false });
    report("Normal", `SuccessfulCreate${title}`, `Created ${title}: ${name}`);
    return "created";
  }
  const { uid, resourceVersion, ownerReferences = [] } = present.metadata ?? {};
  const difference = wanted.difference(present);
  const write = (ownership: object): Promise<unknown> => {
    const body = { ...difference, metadata: { ...ownership, uid, resourceVersion } };
    return calls.patch(resource, name, { kind: "merge", body });
  };
  const controller = findController(present);
  if (isDeleting(present)) return conflict(wanted, "is still being deleted");
  if (controller?.uid === owner.uid) {
    if (difference === undefined) return "kept";
    await write({});
    return "updated";
  }
  if (controller === undefined && matchesSelector(wanted.labels, getLabels(present))) {
    await wanted.canAdopt();
    await write({ ownerReferences: [...ownerReferences, owner] });
    return "adopted";
  }
  report("Warning", `FailedCreate${title}`, `Error creating: ${name}: one of that name belongs to another owner`);
  return conflict(wanted, "belongs to another owner");
}

/** Deletes the object of the job with this uid; returns false if it is missing, being deleted, or of another owner. */
export async function deleteOwnedObject(
  { calls, report }: OwnedObjectDeps,
  jobUid: string,
  { resource, name, title }: Pick<OwnedObject<KubeObject>, "resource" | "name" | "title">,
): Promise<boolean> {
  const present = await unlessMissing(calls.get(resource, name));
  if (present === undefined || isDeleting(present) || findController(present)?.uid !== jobUid) return false;
  const uid = present.metadata?.uid;
  try {
    await calls.delete(resource, name, { ...(uid !== undefined && { preconditions: { uid } }) });
  } catch (error) {
    if (isNotFound(error) || isConflict(error)) return false;
    reportFailure(report, `FailedDelete${title}`, `Error deleting: ${name}`, error);
    throw error;
  }
  report("Normal", `SuccessfulDelete${title}`, `Deleted ${title}: ${name}`);
  return true;
}

function reportFailure(report: ReportEvent, reason: string, doing: string, error: unknown): void {
  const fault = toKubeFault(error);
  if (fault !== undefined) report("Warning", reason, `${doing}: ${describeFault(fault)}`);
}

function conflict(
  { title, resource, name }: Pick<OwnedObject<KubeObject>, "title" | "resource" | "name">,
  why: string,
): never {
  const id = `${resource.namespace ?? ""}/${name}`;
  const fault: Fault = { code: "conflict", id: `${title} ${id}`, expectedRevision: 0, actualRevision: 0 };
  return throwFault(fault, { doing: `${title} ${id} ${why}` });
}
