import { assertNever, FaultError, throwFault, type Fault } from "@muster/faults";
import { decideClaim, type ClaimVerdict } from "../domain/decide-claim.ts";
import { selects, type Labels } from "../domain/member-labels.ts";
import {
  controllerOf,
  isDeleting,
  jobKey,
  labelsOf,
  titleOf,
  type JobObject,
  type MemberObject,
  type OwnerReference,
} from "../domain/ownership.ts";
import { isConflict, isNotFound, isUnprocessable, type MemberCalls } from "./member-calls.ts";
import { inOrder } from "./slow-start.ts";

/** Members that are the job's, and what went wrong with the others. The job must be looked at again while there are errors. */
export type Claimed<M> = { readonly claimed: readonly M[]; readonly errors: readonly Error[] };

/** How the objects of one job are found and owned. */
export type Ownership = {
  readonly labels: Labels;
  readonly owner: OwnerReference;
  /** Asked before an orphan is adopted; rejects when the job may not. One of `recheckDeletionTimestamp`, so that a pass asks once. */
  readonly canAdopt: () => Promise<void>;
};

type Patch<M extends MemberObject> = MemberCalls<M>["patch"];

/**
 * Takes what is the job's out of candidates of its namespace: keeps, adopts and releases as `decideClaim` says. An error with one member does not keep the
 * others from being claimed, and all are returned. What is claimed keeps the order of the candidates.
 */
export async function claimMembers<M extends MemberObject>(
  job: JobObject,
  ownership: Ownership,
  candidates: readonly M[],
  patch: Patch<M>,
): Promise<Claimed<M>> {
  const claimant = { uid: job.metadata.uid, isDeleting: isDeleting(job) };
  const outcomes = new Map<M, M | Error | undefined>();
  await inOrder(candidates, async (member) => {
    const verdict = decideClaim(claimant, {
      controllerUid: controllerOf(member)?.uid,
      isSelected: selects(ownership.labels, labelsOf(member)),
      isDeleting: isDeleting(member),
    });
    const outcome = carryOut(verdict, member, ownership, patch).catch((cause: unknown) => {
      return new Error(`claiming ${titleOf(member)}: ${verdict.kind} because ${verdict.because}`, { cause });
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
 * The question that must be answered before a job takes an orphan: is it, now, still the same job and not being deleted? A cache that is behind would give members to
 * a job that is gone. Asked of the API server when first called, and answered the same after that, be it with an error; so make one for each pass.
 */
export function recheckDeletionTimestamp(job: JobObject, getFreshJob: () => Promise<JobObject>): () => Promise<void> {
  let answer: Promise<void> | undefined;
  return () => (answer ??= recheck(job, getFreshJob));
}

async function recheck(job: JobObject, getFreshJob: () => Promise<JobObject>): Promise<void> {
  const { uid } = job.metadata;
  const id = jobKey(job);
  const fresh = await getFreshJob().catch((cause: unknown) => {
    throw new Error(`can't recheck the deletion timestamp of ${id}`, { cause });
  });
  if (fresh.metadata.uid !== uid) {
    throwFault({ code: "not_found", kind: "job", id: `${id} of uid ${uid}` }, { doing: "the original is gone" });
  }
  if (isDeleting(fresh)) {
    throwFault({ code: "conflict", id, expectedRevision: 0, actualRevision: 0 }, { doing: "it has just been deleted" });
  }
}

/** The member, if it is the job's now. */
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

/** The member as it is with its new owner; undefined when it has gone meanwhile. */
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
    // Our reference is well formed: the object is another one of that name by now, or somebody else was faster. The cache will say which.
    if (!isUnprocessable(error)) throw error;
    const fault: Fault = { code: "conflict", id: titleOf(member), expectedRevision: 0, actualRevision: 0 };
    throw new FaultError(fault, { cause: error });
  }
}

/** Nothing to do when the member has gone (404), or is another one by now or has no such owner any more (422, or 409). */
async function release<M extends MemberObject>(member: M, { owner }: Ownership, patch: Patch<M>): Promise<void> {
  const { namespace = "", name = "", uid } = member.metadata ?? {};
  const references = [{ $patch: "delete", uid: owner.uid }];
  try {
    await patch(namespace, name, { metadata: { uid, ownerReferences: references } });
  } catch (error) {
    if (!isNotFound(error) && !isConflict(error) && !isUnprocessable(error)) throw error;
  }
}
