import type { ReconcileResult } from "@muster/controller";
import { findFault } from "@muster/faults";
import { NOTE_DELAY_MS } from "./domain/defer-notes.ts";
import { computeWakeAtMs } from "./domain/plan-session.ts";
import type { SessionPolicy } from "./domain/snapshot.ts";
import { SessionLostError, reloadRecord, rememberRecord } from "./hold-session.ts";
import { RESYNC_MS, type SessionRun } from "./run.ts";
import { getText, type SessionDeps } from "./session-deps.ts";

/**
 * Writes the reported progress of the log read, onto the newest record if the record may have changed. Returns false if the outcome of a write is unknown: no
 * plan is possible before the record is read. Throws the defect of a failed read.
 */
export async function refreshRecord(deps: SessionDeps, run: SessionRun): Promise<boolean> {
  run.failed = false;
  if (run.defect !== undefined) throw run.defect.error;
  try {
    if (run.stale || run.isWriteUnknown) await reloadRecord(deps, run);
    run.stale = false;
    run.isWriteUnknown = run.read.length > 0 || run.unwritten.length > 0;
    const read = [...run.read];
    await rememberRecord(deps, run, read);
    run.isWriteUnknown = false;
    run.read.splice(0, read.length);
  } catch (error) {
    if (error instanceof SessionLostError || findFault(error) === undefined) throw error;
    run.failed = true;
  }
  return !run.isWriteUnknown;
}

/** Returns when the next pass is due, if no step is possible now. `notesInMs`: time until deferred notes are due. */
export function decidePause(
  deps: SessionDeps,
  run: SessionRun,
  policy: SessionPolicy,
  notesInMs = Infinity,
): ReconcileResult {
  if (run.failed) return { isFailed: true };
  const nowMs = deps.now();
  const { record, reservation, isProgressReported } = run;
  const wakeAt = computeWakeAtMs({ nowMs, record, reservation, isProgressReported }, policy) ?? Infinity;
  const writeInMs = run.unwritten.length === 0 ? Infinity : NOTE_DELAY_MS - (deps.monotonicMs() - run.oursAtMs);
  return { requeueAfterMs: Math.max(0, Math.min(wakeAt - nowMs, RESYNC_MS, notesInMs, writeInMs)) };
}

/** Publishes the unpublished events. A failure is only retried, because the record stores the events. */
export async function announceEvents(deps: SessionDeps, run: SessionRun): Promise<void> {
  const count = run.record.events.length;
  if (run.announced === count) return;
  try {
    await deps.announce(run.record, run.announced, run.inherited);
    run.announced = count;
  } catch (error) {
    run.failed = true;
    deps.logger.warn({ session: run.record.name, reason: getText(error) }, "cannot publish events yet");
  }
}
