import type { Work } from "../domain/work.ts";
import type { WorkCalls } from "../kinds/kind.ts";
import type { Contact } from "./contact.ts";

export type FollowDeps = {
  readonly calls: Pick<WorkCalls, "after">;
  readonly contact: Pick<Contact, "ask">;
  readonly changed: (work: Work) => void;
  readonly isEnough: (work: Work) => boolean;
};

/**
 * Follows work until that is enough, and returns it as it is then; as it was last seen when the signal is aborted first. Rejects when it is gone, and when contact is
 * lost for good.
 */
export async function follow(deps: FollowDeps, start: Work, signal: AbortSignal): Promise<Work> {
  let work = start;
  while (!deps.isEnough(work) && !signal.aborted) {
    const seen = work;
    const question = (): Promise<Work> => deps.calls.after(seen, signal);
    const next = await deps.contact.ask(`${seen.kind} ${seen.name}`, question, signal);
    if (next === undefined || next.revision === seen.revision) continue;
    work = next;
    deps.changed(work);
  }
  return work;
}
