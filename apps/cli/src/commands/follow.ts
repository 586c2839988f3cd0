import type { MusterServices } from "../adapters/muster-services.ts";
import { isFinished, type Session } from "../domain/session.ts";
import type { Contact } from "./contact.ts";

export type FollowDeps = {
  readonly services: Pick<MusterServices, "sessionAfter">;
  readonly contact: Pick<Contact, "ask">;
  readonly changed: (session: Session) => void;
};

/**
 * Follows a session until it is over, and returns it as it is then; as it was last seen when the signal is aborted first. Rejects when the session is gone, and
 * when contact is lost for good.
 */
export async function follow(deps: FollowDeps, start: Session, signal: AbortSignal): Promise<Session> {
  let session = start;
  while (!isFinished(session) && !signal.aborted) {
    const { name, revision } = session;
    const question = (): Promise<Session> => deps.services.sessionAfter(name, revision, signal);
    const next = await deps.contact.ask(`session ${name}`, question, signal);
    if (next === undefined || next.revision === revision) continue;
    session = next;
    deps.changed(session);
  }
  return session;
}
