import { describeFault, type Fault } from "@muster/faults";
import { requireKubeFault } from "@muster/kube";
import { matchesSelector } from "../domain/member-labels.ts";
import {
  checkOwnerReference,
  findController,
  isDeleting,
  getLabels,
  describeMember,
  type MemberObject,
} from "../domain/ownership.ts";
import { isConflict, isNotFound, isOutcomeUnknown, type MemberCalls } from "./member-calls.ts";

/** Writes an event of the job. */
export type ReportEvent = (type: "Normal" | "Warning", reason: string, message: string) => void;

export type CreateOutcome<M> =
  /** `member` is the object that was sent, unless the answer was lost and the member was read. */
  | { readonly did: "created"; readonly member: M }
  /** The job already had the member as desired: an earlier attempt created it. */
  | { readonly did: "found"; readonly member: M }
  /** Neither the creation nor the read was answered, so the member may exist. The cache will show it, or the expectation expires. */
  | { readonly did: "unknown"; readonly fault: Fault }
  | { readonly did: "refused"; readonly fault: Fault };

export type DeleteOutcome =
  | { readonly did: "deleted" }
  /** The object no longer exists; another one may have its name. */
  | { readonly did: "gone" }
  /** Another client has already requested the deletion of the member, and the member still exists. */
  | { readonly did: "leaving" }
  | { readonly did: "unknown"; readonly fault: Fault }
  | { readonly did: "refused"; readonly fault: Fault };

/** The pods of one job, or its services. */
export type MembersOfJob<M extends MemberObject> = {
  readonly kind: "Pod" | "Service";
  readonly calls: Pick<MemberCalls<M>, "get" | "create" | "delete">;
  readonly report: ReportEvent;
  /** Whether a creation without an answer may be sent again: a frozen process that resumes may no longer lead. Absent: always. */
  readonly mayRepeat?: () => Promise<boolean>;
};

/** Creates exactly this member, which must have a name, labels and its owner. Throws only for defects. */
export async function createMember<M extends MemberObject>(
  members: MembersOfJob<M>,
  member: M,
): Promise<CreateOutcome<M>> {
  const wrong = findFault(member);
  return wrong === undefined ? send(members, member, "first") : refuseCreation(members, member, wrong);
}

/** Reads first, and deletes only the object of this name and uid. Throws only for defects. */
export async function deleteMember<M extends MemberObject>(
  { kind, calls, report }: MembersOfJob<M>,
  member: MemberObject,
): Promise<DeleteOutcome> {
  const { namespace = "", name = "", uid = "" } = member.metadata ?? {};
  try {
    const present = await calls.get(namespace, name);
    if (present.metadata?.uid !== uid) return { did: "gone" };
    if (isDeleting(present)) return { did: "leaving" };
    await calls.delete(namespace, name, { uid });
    report("Normal", `SuccessfulDelete${kind}`, `Deleted ${kind.toLowerCase()}: ${name}`);
    return { did: "deleted" };
  } catch (error) {
    const fault = requireKubeFault(error);
    if (isNotFound(error) || isConflict(error)) return { did: "gone" };
    if (isOutcomeUnknown(error)) return { did: "unknown", fault };
    report("Warning", `FailedDelete${kind}`, `Error deleting: ${name}: ${describeFault(fault)}`);
    return { did: "refused", fault };
  }
}

async function send<M extends MemberObject>(
  members: MembersOfJob<M>,
  member: M,
  time: "first" | "last",
): Promise<CreateOutcome<M>> {
  try {
    const created = await members.calls.create(member.metadata?.namespace ?? "", member);
    return reportCreation(members, created);
  } catch (error) {
    const fault = requireKubeFault(error);
    if (isOutcomeUnknown(error))
      return time === "first" ? await settle(members, member, fault) : { did: "unknown", fault };
    if (fault.code !== "already_exists") return refuseCreation(members, member, fault);
  }
  return readExisting(members, member).catch((error: unknown) =>
    refuseCreation(members, member, requireKubeFault(error)),
  );
}

/** Reads whether an unanswered request has arrived. If not, sends the request once more, which is safe because two members cannot have one name. */
async function settle<M extends MemberObject>(
  members: MembersOfJob<M>,
  member: M,
  fault: Fault,
): Promise<CreateOutcome<M>> {
  const { namespace = "", name = "" } = member.metadata ?? {};
  try {
    const present = await members.calls.get(namespace, name);
    return isWanted(present, member) ? reportCreation(members, present) : { did: "unknown", fault };
  } catch (error) {
    if (!isNotFound(error)) return { did: "unknown", fault: requireKubeFault(error) };
  }
  if (members.mayRepeat !== undefined && !(await members.mayRepeat())) return { did: "unknown", fault };
  return send(members, member, "last");
}

/** Reads the object with the name of the desired member. */
async function readExisting<M extends MemberObject>(members: MembersOfJob<M>, wanted: M): Promise<CreateOutcome<M>> {
  const { namespace = "", name = "" } = wanted.metadata ?? {};
  const present = await members.calls.get(namespace, name);
  if (isWanted(present, wanted)) return { did: "found", member: present };
  const id = `${members.kind} ${namespace}/${name}`;
  const why = isDeleting(present) ? "is still being deleted" : "belongs to another owner";
  members.report("Warning", `FailedCreate${members.kind}`, `Error creating: ${name}: one of that name ${why}`);
  return { did: "refused", fault: { code: "conflict", id, expectedRevision: 0, actualRevision: 0 } };
}

function reportCreation<M extends MemberObject>({ kind, report }: MembersOfJob<M>, member: M): CreateOutcome<M> {
  report("Normal", `SuccessfulCreate${kind}`, `Created ${kind.toLowerCase()}: ${member.metadata?.name ?? ""}`);
  return { did: "created", member };
}

function refuseCreation<M extends MemberObject>(
  { kind, report }: MembersOfJob<M>,
  member: M,
  fault: Fault,
): CreateOutcome<M> {
  const message = `Error creating: ${member.metadata?.name ?? ""}: ${describeFault(fault)}`;
  report("Warning", `FailedCreate${kind}`, message);
  return { did: "refused", fault };
}

/** Whether the object is the job's own, is not being deleted, and has every label of the desired member. The labels state the replica and the template. */
function isWanted(present: MemberObject, wanted: MemberObject): boolean {
  return (
    !isDeleting(present) &&
    findController(present)?.uid === findController(wanted)?.uid &&
    matchesSelector(getLabels(wanted), getLabels(present))
  );
}

function findFault(member: MemberObject): Fault | undefined {
  const refuse = (field: string, reason: string): Fault => ({ code: "invalid_request", field, reason });
  if ((member.metadata?.name ?? "") === "")
    return refuse("metadata.name", "is empty: a repeated creation would make a second object");
  if (Object.keys(getLabels(member)).length === 0)
    return refuse("metadata.labels", `${describeMember(member)} has none`);
  return checkOwnerReference(member.metadata?.ownerReferences?.[0]);
}
