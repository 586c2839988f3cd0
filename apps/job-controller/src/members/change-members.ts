import type { Fault } from "@muster/faults";
import { isDeleting, type MemberObject } from "../domain/ownership.ts";
import type { Expectations } from "./expectations.ts";
import type { CreateOutcome, DeleteOutcome } from "./member-control.ts";
import { inOrder, slowStart } from "./slow-start.ts";

/** What came of many creations or deletions. Everything that is not done is left for the next pass. */
export type ChangeReport = {
  readonly done: number;
  /** No answer came. A creation stays expected for a while. */
  readonly unknown: number;
  readonly refused: readonly Fault[];
  /** Not begun, because of a refusal or because we are stopping. */
  readonly untried: number;
};

/** An API server gives up a request after this (`--request-timeout`): a creation that is not there by then will not come, and its name makes it safe to ask again. */
const UNKNOWN_CREATION_MS = 60_000;

export type Accounting = { readonly expectations: Expectations; readonly key: string };

/**
 * Creates members in a slow start. All are expected before the first request; what was refused, not tried or there already is taken back, so that the
 * expectations never hold what cannot come. Stops at the first refusal that the others
 * would meet, too.
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
        // A name that is taken keeps one member from being made, not the others.
        return outcome.fault.code === "conflict" ? ("go-on" as const) : ("stop" as const);
      }
      // What was found may have been seen before it was expected.
      if (outcome.did !== "found") open.delete(member.metadata?.name ?? "");
      if (outcome.did === "unknown") {
        expectations.shorten(key, member.metadata?.name ?? "", UNKNOWN_CREATION_MS);
        report.unknown += 1;
      } else report.done += 1;
      return "go-on" as const;
    };
    const untried = await slowStart(members, work, signal);
    return { ...report, untried: untried.length };
  } finally {
    expectations.lower(key, { creations: open });
  }
}

/**
 * Deletes members that are not on their way out already. One that cannot be deleted does not keep the others. Without an answer nothing is expected: the cache shows a
 * member until it is gone, and to delete the same object twice is harmless, while an event that never comes would hold up the job.
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
      // What was going or gone may have been seen to go before that was expected.
      if (outcome.did === "deleted") open.delete(member.metadata?.uid ?? "");
      if (outcome.did === "refused") report.refused.push(outcome.fault);
      else if (outcome.did === "unknown") report.unknown += 1;
      else report.done += 1;
      return "go-on" as const;
    };
    const { begun } = await inOrder(alive, work, signal);
    return { ...report, untried: alive.length - begun };
  } finally {
    expectations.lower(key, { deletions: open });
  }
}
