import { computeBackoffMs, forEachSome, pause, within } from "@muster/backoff";
import { findFault, isRetryable } from "@muster/faults";
import { isFinished } from "./domain/session.ts";
import { transitionRecord } from "./domain/transition-record.ts";
import { RETRY, type HeldSession } from "./run.ts";
import type { SessionDeps } from "./session-deps.ts";

/** Maximum time that a stopping process waits to hand its sessions back. */
const HAND_BACK_MS = 2000;
/** Maximum sessions that are handed back concurrently. */
const MAX_HAND_BACKS = 32;
/** Maximum attempts to record that a session has not crashed its executor. */
const MAX_HAND_BACK_ATTEMPTS = 30;

/**
 * Hands sessions back, and waits at most HAND_BACK_MS. Failures are retried while the process runs, and at most HAND_BACK_MS after it begins to stop, so that
 * no write delays its exit.
 */
export async function releaseAllSessions(
  deps: SessionDeps,
  runs: readonly HeldSession[],
  stopping: AbortSignal,
): Promise<void> {
  const over = new AbortController();
  const endSoon = (): void => void pause(HAND_BACK_MS, over.signal).then(() => over.abort());
  if (stopping.aborted) endSoon();
  else stopping.addEventListener("abort", endSoon, { once: true, signal: over.signal });
  const writing = forEachSome(
    runs,
    MAX_HAND_BACKS,
    (run) => handBack(deps, run, over.signal),
    () => undefined,
  );
  await within(
    HAND_BACK_MS,
    writing.finally(() => over.abort()),
  );
}

/**
 * Records that the session has not crashed this executor, even if another executor runs it now. A process that lost its lead during a NATS outage still runs,
 * but its successor counted it as crashed. Retries for some minutes or until the signal; if no write succeeds, the executor stays counted. Never rejects.
 */
async function handBack(
  deps: SessionDeps,
  { record: { name, uid, attempts } }: HeldSession,
  signal: AbortSignal,
): Promise<void> {
  for (let attempt = 1; attempts > 0 && attempt <= MAX_HAND_BACK_ATTEMPTS && !signal.aborted; attempt += 1) {
    try {
      const stored = await deps.load(name);
      if (stored?.record.uid !== uid || stored.record.attempts === 0 || isFinished(stored.record)) return;
      await deps.save(transitionRecord(stored.record, { kind: "hand-back" }), stored.revision);
      return;
    } catch (error) {
      const fault = findFault(error);
      deps.logger.warn({ session: name, err: error }, "cannot hand the session back");
      if (fault === undefined || !(isRetryable(fault) || fault.code === "conflict")) return;
      await pause(computeBackoffMs(attempt, RETRY), signal);
    }
  }
}
