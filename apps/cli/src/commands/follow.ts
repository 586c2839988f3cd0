import { faultOf, isRetryable, type Fault } from "@muster/faults";
import type { MusterServices } from "../adapters/muster-services.ts";
import { isFinished, type Session } from "../domain/session.ts";
import { isAborted } from "../is-aborted.ts";

/** A service that is silent for this long is reported; the session itself goes on. */
export const SILENCE_MAX_MS = 120_000;
const BACKOFF = { firstMs: 250, mostMs: 5000 };

export type FollowDeps = {
  readonly services: Pick<MusterServices, "sessionAfter">;
  readonly now: () => number;
  readonly pause: (delayMs: number, signal: AbortSignal) => Promise<void>;
  readonly changed: (session: Session) => void;
  /** Told once for each silence that is longer than a moment. */
  readonly silent: (session: Session, fault: Fault) => void;
};

/**
 * Follows a session until it is over, and returns it as it is then; as it was last seen when the signal is aborted first. Rejects with the fault when the session
 * is gone, and when nobody has answered for SILENCE_MAX_MS.
 */
export async function follow(deps: FollowDeps, start: Session, signal: AbortSignal): Promise<Session> {
  let session = start;
  let answeredAtMs = deps.now();
  let failures = 0;
  while (!isFinished(session) && !signal.aborted) {
    try {
      const next = await deps.services.sessionAfter(session.name, session.revision, signal);
      failures = 0;
      answeredAtMs = deps.now();
      if (next.revision === session.revision) continue;
      session = next;
      deps.changed(session);
    } catch (error) {
      const fault = faultOf(error);
      if (isAborted(signal)) break;
      if (fault === undefined || !isRetryable(fault) || deps.now() - answeredAtMs > SILENCE_MAX_MS) throw error;
      failures += 1;
      if (failures === 1) deps.silent(session, fault);
      await deps.pause(Math.min(BACKOFF.mostMs, BACKOFF.firstMs * 2 ** Math.min(failures - 1, 10)), signal);
    }
  }
  return session;
}
