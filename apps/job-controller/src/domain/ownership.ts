import type { Fault } from "@muster/faults";
import type { JobIdentity, Kind } from "./kind.ts";

/** A reference in the form of the API server. */
export type OwnerReference = {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  readonly controller?: boolean;
  readonly blockOwnerDeletion?: boolean;
};

/** The fields of a pod or service that state its owner. A cache keeps at least these fields of each object. */
export type MemberObject = {
  readonly metadata?: {
    readonly name?: string;
    readonly namespace?: string;
    readonly uid?: string;
    readonly resourceVersion?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly ownerReferences?: readonly OwnerReference[];
    /** The times are text in objects of informers, contrary to the types of the client. */
    readonly creationTimestamp?: Date | string;
    readonly deletionTimestamp?: Date | string;
  };
};

/** A member that runs containers. */
export type PodObject = MemberObject & {
  readonly status?: {
    readonly phase?: string;
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
  };
};

/** The custom resource that owns the members. */
export type JobObject = {
  readonly metadata: JobIdentity & { readonly resourceVersion?: string; readonly deletionTimestamp?: Date | string };
};

/** Returns the key of a job in queues, caches and logs. */
export function buildJobKey({ metadata }: { readonly metadata: Pick<JobIdentity, "namespace" | "name"> }): string {
  return `${metadata.namespace}/${metadata.name}`;
}

/** Returns the one owner that manages the member; undefined for an orphan. */
export function findController(member: MemberObject): OwnerReference | undefined {
  return member.metadata?.ownerReferences?.find(({ controller }) => controller === true);
}

export function isDeleting(object: MemberObject): boolean {
  return object.metadata?.deletionTimestamp !== undefined;
}

export function getLabels(member: MemberObject): Readonly<Record<string, string>> {
  return member.metadata?.labels ?? {};
}

/** Returns `namespace/name`, for messages. */
export function describeMember(member: MemberObject): string {
  return `${member.metadata?.namespace ?? ""}/${member.metadata?.name ?? ""}`;
}

/** Builds the owner reference: the member is deleted with its job, the job waits for it in foreground deletion, and no other controller adopts it. */
export function buildOwnerReference(
  { group, version, kind }: Pick<Kind, "group" | "version" | "kind">,
  job: JobIdentity,
) {
  return {
    apiVersion: `${group}/${version}`,
    kind,
    name: job.name,
    uid: job.uid,
    controller: true,
    blockOwnerDeletion: true,
  };
}

/** Returns the fault in an owner reference. With it, a part of Kubernetes would treat the member as an orphan. */
export function checkOwnerReference(reference: OwnerReference | undefined): Fault | undefined {
  if (reference === undefined) return refuse("", "is missing");
  for (const field of ["apiVersion", "kind", "name", "uid"] as const) {
    if (reference[field] === "") return refuse(`.${field}`, "is empty");
  }
  for (const field of ["controller", "blockOwnerDeletion"] as const) {
    if (reference[field] !== true) return refuse(`.${field}`, "is not true");
  }
  return undefined;
}

/** Whether the reference names that kind of job, in any version. */
export function isReferringToKind({ apiVersion, kind }: OwnerReference, of: Pick<Kind, "group" | "kind">): boolean {
  return kind === of.kind && apiVersion.startsWith(`${of.group}/`);
}

function refuse(field: string, reason: string): Fault {
  return { code: "invalid_request", field: `owner reference${field}`, reason };
}
