import { buildComponentName, buildOwnerId } from "./build-units.ts";
import type { JobSpec, Member } from "./job.ts";
import type { JobIdentity, Kind, KindDefaults } from "./kind.ts";

/** Keys by which all services recognise each other's pods, defined by the contracts. */
export type MemberKeys = {
  readonly labels: Readonly<
    Record<
      "managedBy" | "installation" | "ownerKind" | "owner" | "ownerUid" | "component" | "attempt" | "exclusive",
      string
    >
  >;
  readonly annotations: Readonly<Record<"mainContainer" | "traceparent" | "preemptedAt", string>>;
};

export type MemberPolicy = {
  readonly keys: MemberKeys;
  /** The id of this installation. */
  readonly installation: string;
  readonly defaults: KindDefaults;
  /** The gates of a pod; no scheduler places the pod before their removal. */
  readonly schedulingGates: readonly string[];
};

/** A job, its kind, and its spec. */
export type JobToBuild = { readonly kind: Kind; readonly job: JobIdentity; readonly spec: JobSpec };

/** Returns the labels by which Muster's services find the owner of a member, in addition to the labels of the kind. */
export function buildOwnerLabels(
  { job }: Pick<JobToBuild, "job">,
  { labels }: MemberKeys,
): Readonly<Record<string, string>> {
  return {
    [labels.managedBy]: "muster",
    [labels.ownerKind]: "job",
    [labels.owner]: buildOwnerId(job),
    [labels.ownerUid]: job.uid,
  };
}

export function buildComponentLabel(member: Member, { labels }: MemberKeys): Readonly<Record<string, string>> {
  return { [labels.component]: buildComponentName(member) };
}
