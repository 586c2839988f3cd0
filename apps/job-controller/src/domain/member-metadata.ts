import { componentOf, ownerIdOf } from "./build-units.ts";
import type { JobSpec, Member } from "./job.ts";
import type { JobIdentity, Kind, KindDefaults } from "./kind.ts";

/** Names by which all services recognise each other's pods; they come from the contracts. */
export type MemberKeys = {
  readonly labels: Readonly<
    Record<
      "managedBy" | "installation" | "ownerKind" | "owner" | "ownerUid" | "component" | "attempt" | "exclusive",
      string
    >
  >;
  readonly annotations: Readonly<Record<"mainContainer" | "traceparent", string>>;
};

export type MemberPolicy = {
  readonly keys: MemberKeys;
  /** Id of ours. */
  readonly installation: string;
  readonly defaults: KindDefaults;
  /** Until these are taken off a pod, no scheduler places it. */
  readonly schedulingGates: readonly string[];
};

/** A job, its kind, and what was read of it. */
export type JobToBuild = { readonly kind: Kind; readonly job: JobIdentity; readonly spec: JobSpec };

/** By which Muster's services know whose a member is; the labels of the kind are beside them. */
export function ownerLabels(
  { job }: Pick<JobToBuild, "job">,
  { labels }: MemberKeys,
): Readonly<Record<string, string>> {
  return {
    [labels.managedBy]: "muster",
    [labels.ownerKind]: "job",
    [labels.owner]: ownerIdOf(job),
    [labels.ownerUid]: job.uid,
  };
}

export function componentLabel(member: Member, { labels }: MemberKeys): Readonly<Record<string, string>> {
  return { [labels.component]: componentOf(member) };
}
