import { describeFault, faultOf, type Fault } from "@muster/faults";
import { kubeFault } from "../kube-fault.ts";
import type { JobObject } from "./controller-interface.ts";
import { isConflict, isNotFound, isOutcomeUnknown, type MemberCalls } from "./member-calls.ts";
import { controllerOf, isDeleting, labelsOf, titleOf, type Member } from "./member.ts";
import { selects } from "./member-labels.ts";
import { requireOwnerReference } from "./owner-reference.ts";

/** Tells the people who look at the job what happened to it. */
export type RecordEvent<Job extends JobObject> = (
  job: Job,
  type: "Normal" | "Warning",
  reason: string,
  message: string,
) => void;

export type CreateOutcome<M> =
  /** `member` is what was sent, unless the answer was lost and it was looked for. */
  | { readonly did: "created"; readonly member: M }
  /** It was there already, the job's, and as wanted: an earlier attempt made it. */
  | { readonly did: "found"; readonly member: M }
  /** No answer, and none to a second look either: it may exist. The cache will show it, or the expectation runs out. */
  | { readonly did: "unknown"; readonly fault: Fault }
  | { readonly did: "refused"; readonly fault: Fault };

export type DeleteOutcome =
  | { readonly did: "deleted" }
  /** There is no such object any more; another one may have its name. */
  | { readonly did: "gone" }
  /** Somebody has deleted it already, and it takes its time. */
  | { readonly did: "leaving" }
  | { readonly did: "unknown"; readonly fault: Fault }
  | { readonly did: "refused"; readonly fault: Fault };

export type MemberControl<M extends Member, Job extends JobObject> = {
  /** Creates the member as it is given, which must have a name, labels and its owner. Throws only for defects. */
  create(job: Job, member: M): Promise<CreateOutcome<M>>;
  /** Reads first, and deletes only the object of this name and uid. Throws only for defects. */
  delete(job: Job, member: Member): Promise<DeleteOutcome>;
};

export type MemberControlDeps<M extends Member, Job extends JobObject> = {
  readonly calls: Pick<MemberCalls<M>, "get" | "create" | "delete">;
  readonly recordEvent: RecordEvent<Job>;
};

/** Creates and deletes members of one kind, and tells about each in an event of the job. */
export function memberControl<M extends Member, Job extends JobObject>(
  kind: MemberKind,
  deps: MemberControlDeps<M, Job>,
): MemberControl<M, Job> {
  return { create: memberCreation(kind, deps), delete: memberDeletion(kind, deps) };
}

type MemberKind = "Pod" | "Service";

function memberCreation<M extends Member, Job extends JobObject>(
  kind: MemberKind,
  { calls, recordEvent }: MemberControlDeps<M, Job>,
): MemberControl<M, Job>["create"] {
  const failed = (job: Job, doing: string, fault: Fault) =>
    refused(recordEvent, job, `FailedCreate${kind}`, `Error ${doing}`, fault);

  /** What has the name of the member that was to be created. */
  async function inItsPlace(job: Job, wanted: M, doing: string): Promise<CreateOutcome<M>> {
    const { namespace = "", name = "" } = wanted.metadata ?? {};
    const there = await calls.get(namespace, name);
    if (isWanted(there, wanted)) return { did: "found", member: there };
    const fault: Fault = {
      code: "conflict",
      id: `${kind} ${namespace}/${name}`,
      expectedRevision: 0,
      actualRevision: 0,
    };
    const why = isDeleting(there) ? "is still being deleted" : "belongs to somebody else";
    recordEvent(job, "Warning", `FailedCreate${kind}`, `Error ${doing}: one of that name ${why}`);
    return { did: "refused", fault };
  }

  /** No answer came. Looks whether the request has arrived; if not it is sent once more, because two of one name cannot be made. */
  async function settle(job: Job, member: M, fault: Fault): Promise<CreateOutcome<M>> {
    const { namespace = "", name = "" } = member.metadata ?? {};
    try {
      const there = await calls.get(namespace, name);
      if (!isWanted(there, member)) return { did: "unknown", fault };
      recordEvent(job, "Normal", `SuccessfulCreate${kind}`, `Created ${kind.toLowerCase()}: ${name}`);
      return { did: "created", member: there };
    } catch (error) {
      if (!isNotFound(error)) return { did: "unknown", fault: expected(error) };
    }
    return send(job, member, "last");
  }

  async function create(job: Job, member: M): Promise<CreateOutcome<M>> {
    const wrong = whatIsWrong(member);
    if (wrong !== undefined) return failed(job, `creating: ${member.metadata?.name ?? ""}`, wrong);
    return send(job, member, "first");
  }

  async function send(job: Job, member: M, time: "first" | "last"): Promise<CreateOutcome<M>> {
    const { namespace = "", name = "" } = member.metadata ?? {};
    const doing = `creating: ${name}`;
    try {
      const created = await calls.create(namespace, member);
      recordEvent(job, "Normal", `SuccessfulCreate${kind}`, `Created ${kind.toLowerCase()}: ${name}`);
      return { did: "created", member: created };
    } catch (error) {
      const fault = expected(error);
      if (isOutcomeUnknown(error))
        return time === "first" ? await settle(job, member, fault) : { did: "unknown", fault };
      if (fault.code !== "already_exists") return failed(job, doing, fault);
    }
    return inItsPlace(job, member, doing).catch((error: unknown) => failed(job, doing, expected(error)));
  }

  return create;
}

function memberDeletion<M extends Member, Job extends JobObject>(
  kind: MemberKind,
  { calls, recordEvent }: MemberControlDeps<M, Job>,
): MemberControl<M, Job>["delete"] {
  return async (job, member) => {
    const { namespace = "", name = "", uid = "" } = member.metadata ?? {};
    try {
      const there = await calls.get(namespace, name);
      if (there.metadata?.uid !== uid) return { did: "gone" };
      if (isDeleting(there)) return { did: "leaving" };
      await calls.delete(namespace, name, { uid });
      recordEvent(job, "Normal", `SuccessfulDelete${kind}`, `Deleted ${kind.toLowerCase()}: ${name}`);
      return { did: "deleted" };
    } catch (error) {
      const fault = expected(error);
      if (isNotFound(error) || isConflict(error)) return { did: "gone" };
      if (isOutcomeUnknown(error)) return { did: "unknown", fault };
      return refused(recordEvent, job, `FailedDelete${kind}`, `Error deleting: ${name}`, fault);
    }
  };
}

/** Tells of it, too. */
function refused<Job extends JobObject>(
  recordEvent: RecordEvent<Job>,
  job: Job,
  reason: string,
  doing: string,
  fault: Fault,
): { readonly did: "refused"; readonly fault: Fault } {
  recordEvent(job, "Warning", reason, `${doing}: ${describeFault(fault)}`);
  return { did: "refused", fault };
}

/** The job's own, alive, with every label that it was to have: these say which replica it is, and of which template. */
function isWanted(there: Member, wanted: Member): boolean {
  return (
    !isDeleting(there) &&
    controllerOf(there)?.uid === controllerOf(wanted)?.uid &&
    selects(labelsOf(wanted), labelsOf(there))
  );
}

function whatIsWrong(member: Member): Fault | undefined {
  const refuse = (field: string, reason: string): Fault => ({ code: "invalid_request", field, reason });
  if ((member.metadata?.name ?? "") === "") return refuse("metadata.name", "is empty: creating twice would make two");
  if (Object.keys(labelsOf(member)).length === 0) return refuse("metadata.labels", `${titleOf(member)} has none`);
  try {
    requireOwnerReference(member.metadata?.ownerReferences?.[0]);
    return undefined;
  } catch (error) {
    return expected(error);
  }
}

/** The fault behind an error; whatever is no fault is a defect, and goes on. */
function expected(error: unknown): Fault {
  const fault = faultOf(error) ?? kubeFault(error);
  if (fault === undefined) throw error;
  return fault;
}
