/** The decision whether a member belongs to a job. */
export type ClaimVerdict =
  | { readonly kind: "keep"; readonly because: "controlled-and-selected" }
  | { readonly kind: "adopt"; readonly because: "selected-orphan" }
  | { readonly kind: "release"; readonly because: "no-longer-selected" }
  | { readonly kind: "ignore"; readonly because: IgnoreReason };

type IgnoreReason =
  | "controlled-by-another"
  /** The garbage collector deletes the member with the job, whatever its labels are. */
  | "no-longer-selected-by-a-job-that-is-deleted"
  | "orphan-of-a-job-that-is-deleted"
  | "orphan-that-is-deleted"
  | "orphan-not-selected";

type Claimant = { readonly uid: string; readonly isDeleting: boolean };

type ClaimCandidate = {
  /** The uid in the managing owner reference; undefined for an orphan. */
  readonly controllerUid: string | undefined;
  /** Whether the job's selector matches the member's labels. */
  readonly isSelected: boolean;
  readonly isDeleting: boolean;
};

/** Decides whether a member belongs to a job, from the cached state of both. A job that is being deleted neither adopts nor releases. */
export function decideMemberClaim(job: Claimant, member: ClaimCandidate): ClaimVerdict {
  if (member.controllerUid !== undefined) {
    if (member.controllerUid !== job.uid) return ignore("controlled-by-another");
    if (member.isSelected) return { kind: "keep", because: "controlled-and-selected" };
    if (job.isDeleting) return ignore("no-longer-selected-by-a-job-that-is-deleted");
    return { kind: "release", because: "no-longer-selected" };
  }
  if (!member.isSelected) return ignore("orphan-not-selected");
  if (job.isDeleting) return ignore("orphan-of-a-job-that-is-deleted");
  if (member.isDeleting) return ignore("orphan-that-is-deleted");
  return { kind: "adopt", because: "selected-orphan" };
}

function ignore(because: IgnoreReason): ClaimVerdict {
  return { kind: "ignore", because };
}
