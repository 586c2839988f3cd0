import type { Fault } from "@muster/faults";
import { isDeleting, type MemberObject } from "../domain/ownership.ts";
import type { Expectations } from "./expectations.ts";
import type { CreateOutcome, DeleteOutcome } from "./member-control.ts";
import { runInOrder, runWithSlowStart } from "./slow-start.ts";

/** The result of many creations or deletions. The next pass handles the rest. */
export type ChangeReport = {
  readonly done: number;
  /** Changes without an answer. A creation stays expected for a while. */
  readonly unknown: number;
  readonly refused: readonly Fault[];
  /** Changes that were not started, because of a refusal or an abort. */
  readonly untried: number;
};

/**
 * An API server aborts a request after this time (`--request-timeout`). A creation that is missing by then will not happen, and its name makes a retry safe.
 */
const UNKNOWN_CREATION_MS = 60_000;

type Accounting = { readonly expectations: Expectations; readonly key: string };

/**
 * Creates members in a slow start. Expects all members before the first request. Removes the expectations of refused, untried and already existing members,
 * whose events will not arrive. Stops at the first refusal that would also affect further members.
 */
export async function createMembers<M extends MemberObject>(
  members: readonly M[],
  create: (member: M) => Promise<CreateOutcome<M>>,
  { expectations, key }: Accounting,
  signal?: AbortSignal,
): Promise<ChangeReport> {
  const names = members.map((member) => member.metadata?.name ?? "");
  const open = new Set(names);
  const report = { done: 0, unknown: 0, refused: [] as Fault[] };
  expectations.raise(key, { creations: names });
  try {
    const work = async (member: M) => {
      const outcome = await create(member);
      if (outcome.did === "refused") {
        report.refused.push(outcome.fault);
        // A taken name blocks only this member.
        return outcome.fault.code === "conflict" ? ("go-on" as const) : ("stop" as const);
      }
      // An existing member may have been observed before it was expected.
      if (outcome.did !== "found") open.delete(member.metadata?.name ?? "");
      if (outcome.did === "unknown") {
        expectations.shorten(key, member.metadata?.name ?? "", UNKNOWN_CREATION_MS);
        report.unknown += 1;
      } else report.done += 1;
      return "go-on" as const;
    };
    const untried = await runWithSlowStart(members, work, signal);
    return { ...report, untried: untried.length };
  } finally {
    expectations.lower(key, { creations: open });
  }
}

/**
 * Deletes members that are not being deleted yet. A failure does not stop further deletions. Unanswered deletions are not expected: repeating one is harmless,
 * while an event that never arrives would delay the job.
 */
export async function deleteMembers<M extends MemberObject>(
  members: readonly M[],
  remove: (member: M) => Promise<DeleteOutcome>,
  { expectations, key }: Accounting,
  signal?: AbortSignal,
): Promise<ChangeReport> {
  const alive = members.filter((member) => !isDeleting(member));
  const uids = alive.map((member) => member.metadata?.uid ?? "");
  const open = new Set(uids);
  const report = { done: 0, unknown: 0, refused: [] as Fault[] };
  expectations.raise(key, { deletions: uids });
  try {
    const work = async (member: M) => {
      const outcome = await remove(member);
      // The deletion of a member that another client had deleted may have been observed before it was expected.
      if (outcome.did === "deleted") open.delete(member.metadata?.uid ?? "");
      if (outcome.did === "refused") report.refused.push(outcome.fault);
      else if (outcome.did === "unknown") report.unknown += 1;
      else report.done += 1;
      return "go-on" as const;
    };
    const { begun } = await runInOrder(alive, work, signal);
    return { ...report, untried: alive.length - begun };
  } finally {
    expectations.lower(key, { deletions: open });
  }
}
