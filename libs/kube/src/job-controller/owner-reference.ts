import { throwFault } from "@muster/faults";
import type { GroupVersionKind, JobObject } from "./controller-interface.ts";
import type { OwnerReference } from "./member.ts";

/** The reference by which a job manages a member: it goes with the job, and in foreground deletion the job waits for it. */
export function genOwnerReference(gvk: GroupVersionKind, job: JobObject): OwnerReference {
  return {
    apiVersion: apiVersionOf(gvk),
    kind: gvk.kind,
    name: job.metadata.name,
    uid: job.metadata.uid,
    controller: true,
    blockOwnerDeletion: true,
  };
}

/** Throws FaultError invalid_request for a reference with which a member would be an orphan for one part of Kubernetes or another. */
export function requireOwnerReference(reference: OwnerReference | undefined): OwnerReference {
  if (reference === undefined) return refuse("", "is missing");
  for (const field of ["apiVersion", "kind", "name", "uid"] as const) {
    if (reference[field] === "") return refuse(`.${field}`, "is empty");
  }
  for (const field of ["controller", "blockOwnerDeletion"] as const) {
    if (reference[field] !== true) return refuse(`.${field}`, "is not true");
  }
  return reference;
}

/** As `apiVersion` of manifests has it; the core group has no name. */
export function apiVersionOf({ group, version }: GroupVersionKind): string {
  return group === "" ? version : `${group}/${version}`;
}

/** Whether the reference is to that kind of job, in whatever version. */
export function refersToKind(reference: OwnerReference, gvk: GroupVersionKind): boolean {
  const slash = reference.apiVersion.indexOf("/");
  const group = slash < 0 ? "" : reference.apiVersion.slice(0, slash);
  return reference.kind === gvk.kind && group === gvk.group;
}

function refuse(field: string, reason: string): never {
  return throwFault({ code: "invalid_request", field: `owner reference${field}`, reason });
}
