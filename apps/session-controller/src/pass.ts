import type { Reconciled } from "@muster/controller";
import { faultOf } from "@muster/faults";
import { NOTE_DELAY_MS } from "./domain/defer-notes.ts";
import { wakeAtMs } from "./domain/plan-session.ts";
import type { SessionPolicy } from "./domain/snapshot.ts";
import { Lost, reload, remember } from "./hold-session.ts";
import { RESYNC_MS, type Run } from "./run.ts";
import { textOf, type SessionDeps } from "./session-deps.ts";

/**
 * Writes the reported progress of reading logs, on the newest record if the record may have changed. False: the outcome of a write is unknown, so no plan is
 * possible before the record is read. Throws the defect of a failed read.
 */
export async function refresh(deps: SessionDeps, run: Run): Promise<boolean> {
  run.failed = false;
  if (run.defect !== undefined) throw run.defect.error;
  try {
    if (run.stale || run.isWriteUnknown) await reload(deps, run);
    run.stale = false;
    run.isWriteUnknown = run.read.length > 0 || run.unwritten.length > 0;
    const read = [...run.read];
    await remember(deps, run, read);
    run.isWriteUnknown = false;
    run.read.splice(0, read.length);
  } catch (error) {
    if (error instanceof Lost || faultOf(error) === undefined) throw error;
    run.failed = true;
  }
  return !run.isWriteUnknown;
}

/** Returns the next pass if nothing more can be done now; `notesInMs`: time until deferred notes are due. */
export function pauseOf(deps: SessionDeps, run: Run, policy: SessionPolicy, notesInMs = Infinity): Reconciled {
  if (run.failed) return { isFailed: true };
  const nowMs = deps.now();
  const { record, reservation, isProgressReported } = run;
  const wakeAt = wakeAtMs({ nowMs, record, reservation, isProgressReported }, policy) ?? Infinity;
  const writeInMs = run.unwritten.length === 0 ? Infinity : NOTE_DELAY_MS - (deps.monotonicMs() - run.oursAtMs);
  return { requeueAfterMs: Math.max(0, Math.min(wakeAt - nowMs, RESYNC_MS, notesInMs, writeInMs)) };
}

/** Publishes the unpublished events. The record is the truth, so a failure is only retried. */
export async function announce(deps: SessionDeps, run: Run): Promise<void> {
  const count = run.record.events.length;
  if (run.announced === count) return;
  try {
    await deps.announce(run.record, run.announced, run.inherited);
    run.announced = count;
  } catch (error) {
    run.failed = true;
    deps.logger.warn({ session: run.record.name, reason: textOf(error) }, "cannot publish events yet");
  }
}
