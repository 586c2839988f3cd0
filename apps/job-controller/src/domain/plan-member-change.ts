import type { Kind } from "./kind.ts";
import {
  findController,
  isDeleting,
  buildJobKey,
  getLabels,
  isReferringToKind,
  type JobObject,
  type MemberObject,
} from "./ownership.ts";

/** A change as an informer reports it. An addition has no `before`. A deletion has no `after`, and its `before` is the last known state. */
export type MemberChange<M extends MemberObject> = {
  readonly before: M | undefined;
  readonly after: M | undefined;
};

/** A consequence of one change. */
export type MemberStep =
  | { readonly kind: "wake"; readonly job: string; readonly because: WakeReason }
  | {
      readonly kind: "creation-observed";
      readonly set: ReplicaSetId;
      readonly name: string;
      readonly because: SeenReason;
    }
  | {
      readonly kind: "deletion-observed";
      readonly uid: string;
      readonly because: LeftReason;
    };

/** The replicas of one type of one job. */
type ReplicaSetId = { readonly jobUid: string; readonly replicaType: string };

type WakeReason = "its-member" | "was-its-member" | "its-labels" | "had-its-labels";
type SeenReason = "is-there" | "came-and-went";
type LeftReason = "is-gone" | "left-the-set" | "is-being-deleted";

/** Returns the cached job of this name. */
export type GetCachedJob = (namespace: string, name: string) => JobObject | undefined;

/** The parts of a kind that state the owner of a member. */
export type OwningKind = Pick<Kind, "group" | "kind" | "labelKeys">;

/**
 * The consequences of one change of a pod or service: the jobs that need a pass, and the expectations that are met. `jobOf` is the cache of jobs.
 *
 * A member is of a replica set while a job of our kind manages it and it has the type label. Entering a set meets a creation. Leaving it, by deletion, by an
 * edit of its labels or by release, meets a deletion; so does the start of a deletion, because from then on the cache shows it. A member that leaves meets
 * its creation, too: it existed, whether or not its addition was reported.
 *
 * The old and the new owner wake when the owner or the labels change. An orphan wakes the job that selects it, which may adopt it. So does the deletion of
 * any owner's member: it may have had a name that the job waits for, as those of an earlier job of the same name have.
 */
export function planMemberChange<M extends MemberObject>(
  { before, after }: MemberChange<M>,
  kind: OwningKind,
  jobOf: GetCachedJob,
): MemberStep[] {
  const isResync = before !== undefined && before.metadata?.resourceVersion === after?.metadata?.resourceVersion;
  // An object that is first observed during its deletion is neither a creation nor one of our deletions.
  if (isResync || (before === undefined && after !== undefined && isDeleting(after))) return [];
  const steps = observe(before, after, kind);
  if (isOfNoSet(before, after, kind)) return steps;
  const wakes = new Map<string, WakeReason>();
  const relabelled = before !== undefined && after !== undefined && !sameLabels(before, after);
  for (const member of [after, before]) {
    if (member === undefined) continue;
    const owner = ownerKey(member, kind, jobOf);
    if (owner !== undefined && !wakes.has(owner)) wakes.set(owner, member === after ? "its-member" : "was-its-member");
    const isOrphan = findController(member) === undefined;
    if (!relabelled && !isOrphan && after !== undefined) continue;
    const selecting = selectingKey(member, kind, jobOf);
    if (selecting !== undefined && !wakes.has(selecting)) {
      wakes.set(selecting, member === after ? "its-labels" : "had-its-labels");
    }
  }
  return [...steps, ...[...wakes].map(([job, because]): MemberStep => ({ kind: "wake", job, because }))];
}

/** Whether a managed member without a type was added or deleted, which changes no set of its job. */
function isOfNoSet(before: MemberObject | undefined, after: MemberObject | undefined, kind: OwningKind): boolean {
  if (before !== undefined && after !== undefined) return false;
  const member = after ?? before;
  return member === undefined || (findController(member) !== undefined && findType(member, kind) === undefined);
}

function observe(before: MemberObject | undefined, after: MemberObject | undefined, kind: OwningKind): MemberStep[] {
  const was = before && findReplicaSet(before, kind);
  const is = after && findReplicaSet(after, kind);
  const stayed =
    was !== undefined && is !== undefined && was.jobUid === is.jobUid && was.replicaType === is.replicaType;
  const steps: MemberStep[] = [];
  const { name = "", uid = "" } = (after ?? before)?.metadata ?? {};
  if (was !== undefined && !stayed) {
    steps.push({ kind: "creation-observed", set: was, name, because: "came-and-went" });
  }
  if (is !== undefined && !stayed) steps.push({ kind: "creation-observed", set: is, name, because: "is-there" });
  const because = decideLeaveReason(before, after, was !== undefined && !stayed);
  if (because !== undefined) steps.push({ kind: "deletion-observed", uid, because });
  return steps;
}

/** The caller checks every member, not only members of a set: a member may have been in a set when its deletion was requested. */
function decideLeaveReason(
  before: MemberObject | undefined,
  after: MemberObject | undefined,
  hasLeft: boolean,
): LeftReason | undefined {
  if (after === undefined) return before === undefined ? undefined : "is-gone";
  if (isDeleting(after)) return "is-being-deleted";
  return hasLeft ? "left-the-set" : undefined;
}

/** Returns the set by the uid of the job, so that the job need not be in the cache. */
function findReplicaSet(member: MemberObject, kind: OwningKind): ReplicaSetId | undefined {
  const reference = findController(member);
  const replicaType = findType(member, kind);
  if (reference === undefined || replicaType === undefined) return undefined;
  return isReferringToKind(reference, kind) ? { jobUid: reference.uid, replicaType } : undefined;
}

/** Returns the job that manages the member, if the owner reference has the uid of the job. */
function ownerKey(member: MemberObject, kind: OwningKind, jobOf: GetCachedJob): string | undefined {
  const reference = findController(member);
  if (reference === undefined || !isReferringToKind(reference, kind)) return undefined;
  const job = jobOf(member.metadata?.namespace ?? "", reference.name);
  return job?.metadata.uid === reference.uid ? buildJobKey(job) : undefined;
}

/** Returns the job whose selector matches the member's labels. At most one job matches, because names are unique. */
function selectingKey(member: MemberObject, kind: OwningKind, jobOf: GetCachedJob): string | undefined {
  const labels = getLabels(member);
  const name = labels[kind.labelKeys.jobNameLabelKey];
  if (name === undefined || labels[kind.labelKeys.groupNameLabelKey] !== kind.labelKeys.groupNameLabelValue)
    return undefined;
  const job = jobOf(member.metadata?.namespace ?? "", name);
  return job === undefined ? undefined : buildJobKey(job);
}

function findType(member: MemberObject, kind: OwningKind): string | undefined {
  return getLabels(member)[kind.labelKeys.replicaTypeLabelKey];
}

function sameLabels(a: MemberObject, b: MemberObject): boolean {
  const [left, right] = [getLabels(a), getLabels(b)];
  const keys = Object.keys(left);
  return keys.length === Object.keys(right).length && keys.every((key) => left[key] === right[key]);
}
