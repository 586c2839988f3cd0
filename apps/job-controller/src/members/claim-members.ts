import { assertNever, FaultError, throwFault, type Fault } from "@muster/faults";
import { decideMemberClaim, type ClaimVerdict } from "../domain/decide-member-claim.ts";
import { matchesSelector, type Labels } from "../domain/member-labels.ts";
import {
  findController,
  isDeleting,
  buildJobKey,
  getLabels,
  describeMember,
  type JobObject,
  type MemberObject,
  type OwnerReference,
} from "../domain/ownership.ts";
import { isConflict, isNotFound, isUnprocessable, type MemberCalls } from "./member-calls.ts";
import { runInOrder } from "./slow-start.ts";

/** The members of the job, and the errors with other candidates. An error requires another pass over the job. */
export type ClaimResult<M> = { readonly claimed: readonly M[]; readonly errors: readonly Error[] };

/** The selector and the owner of the objects of one job. */
export type Ownership = {
  readonly labels: Labels;
  readonly owner: OwnerReference;
  /**
   * Called before an orphan is adopted; rejects if the job may not adopt. `recheckDeletionTimestamp` builds this check, so that a pass reads the API server
   * once.
   */
  readonly canAdopt: () => Promise<void>;
};

type Patch<M extends MemberObject> = MemberCalls<M>["patch"];

/**
 * Claims the members of the job among candidates of its namespace: keeps, adopts and releases as `decideMemberClaim` decides. An error with one candidate does
 * not stop the claim, and all errors are returned. The claimed members keep the order of the candidates.
 */
export async function claimMembers<M extends MemberObject>(
  job: JobObject,
  ownership: Ownership,
  candidates: readonly M[],
  patch: Patch<M>,
): Promise<ClaimResult<M>> {
  const claimant = { uid: job.metadata.uid, isDeleting: isDeleting(job) };
  const outcomes = new Map<M, M | Error | undefined>();
  await runInOrder(candidates, async (member) => {
    const verdict = decideMemberClaim(claimant, {
      controllerUid: findController(member)?.uid,
      isSelected: matchesSelector(ownership.labels, getLabels(member)),
      isDeleting: isDeleting(member),
    });
    const outcome = carryOut(verdict, member, ownership, patch).catch((cause: unknown) => {
      return new Error(`claiming ${describeMember(member)}: ${verdict.kind} because ${verdict.because}`, { cause });
    });
    outcomes.set(member, await outcome);
    return "go-on";
  });
  const claimed: M[] = [];
  const errors: Error[] = [];
  for (const member of candidates) {
    const outcome = outcomes.get(member);
    if (outcome instanceof Error) errors.push(outcome);
    else if (outcome !== undefined) claimed.push(outcome);
  }
  return { claimed, errors };
}

/**
 * Returns the check before a job adopts an orphan: it must still be the same job and not be under deletion, because a stale cache would give members to a
 * deleted job. The first call reads the API server, and later calls repeat its result, even an error. Create one check per pass.
 */
export function recheckDeletionTimestamp(job: JobObject, getFreshJob: () => Promise<JobObject>): () => Promise<void> {
  let answer: Promise<void> | undefined;
  return () => (answer ??= recheck(job, getFreshJob));
}

/**
 * Checks, before machines are reserved and pods are created, that the API server still has the version of the job from which they were planned. An older
 * version may hide the end of the job. Rejects with not_found if the job is gone, and with a conflict if it has changed. Reads the API server at each call.
 */
export async function recheckVersion(
  job: JobObject,
  plannedFrom: string | undefined,
  getFreshJob: () => Promise<JobObject>,
): Promise<void> {
  const { resourceVersion } = (await readAlive(job, getFreshJob)).metadata;
  if (resourceVersion === plannedFrom) return;
  const revisions = { expectedRevision: Number(plannedFrom), actualRevision: Number(resourceVersion) };
  throwFault({ code: "conflict", id: buildJobKey(job), ...revisions }, { doing: "its plan is of another version" });
}

async function recheck(job: JobObject, getFreshJob: () => Promise<JobObject>): Promise<void> {
  await readAlive(job, getFreshJob);
}

/** Reads the job from the API server; rejects if it is gone or being deleted. */
async function readAlive(job: JobObject, getFreshJob: () => Promise<JobObject>): Promise<JobObject> {
  const { uid } = job.metadata;
  const id = buildJobKey(job);
  const fresh = await getFreshJob().catch((cause: unknown) => {
    throw new Error(`can't recheck the deletion timestamp of ${id}`, { cause });
  });
  if (fresh.metadata.uid !== uid) {
    throwFault({ code: "not_found", kind: "job", id: `${id} of uid ${uid}` }, { doing: "the original is gone" });
  }
  if (isDeleting(fresh)) {
    throwFault({ code: "conflict", id, expectedRevision: 0, actualRevision: 0 }, { doing: "it has just been deleted" });
  }
  return fresh;
}

/** Returns the member if it belongs to the job now. */
async function carryOut<M extends MemberObject>(
  verdict: ClaimVerdict,
  member: M,
  ownership: Ownership,
  patch: Patch<M>,
): Promise<M | undefined> {
  switch (verdict.kind) {
    case "keep":
      return member;
    case "adopt":
      return adopt(member, ownership, patch);
    case "release":
      await release(member, ownership, patch);
      return undefined;
    case "ignore":
      return undefined;
    default:
      return assertNever(verdict);
  }
}

/** Returns the member with its new owner; undefined if it was deleted meanwhile. */
async function adopt<M extends MemberObject>(
  member: M,
  { owner, canAdopt }: Ownership,
  patch: Patch<M>,
): Promise<M | undefined> {
  await canAdopt();
  const { namespace = "", name = "", uid } = member.metadata ?? {};
  try {
    return await patch(namespace, name, { metadata: { uid, ownerReferences: [owner] } });
  } catch (error) {
    if (isNotFound(error)) return undefined;
    // Our reference is well formed. So the name belongs to another object, or another controller has adopted the member; the cache will show which.
    if (!isUnprocessable(error)) throw error;
    const fault: Fault = { code: "conflict", id: describeMember(member), expectedRevision: 0, actualRevision: 0 };
    throw new FaultError(fault, { cause: error });
  }
}

/** Releases a member. Succeeds if the member is gone (404), is another object by now, or no longer has this owner (422, or 409). */
async function release<M extends MemberObject>(member: M, { owner }: Ownership, patch: Patch<M>): Promise<void> {
  const { namespace = "", name = "", uid } = member.metadata ?? {};
  const references = [{ $patch: "delete", uid: owner.uid }];
  try {
    await patch(namespace, name, { metadata: { uid, ownerReferences: references } });
  } catch (error) {
    if (!isNotFound(error) && !isConflict(error) && !isUnprocessable(error)) throw error;
  }
}
