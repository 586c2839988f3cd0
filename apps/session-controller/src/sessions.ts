import { isRetryable, findFault } from "@muster/faults";
import {
  makeReconciler,
  type ObservedInput,
  type Reconcile,
  type ReconcileResult,
  type WorkQueue,
} from "@muster/controller";
import { NOTE_DELAY_MS, deferNotes, type SessionPlan } from "./domain/defer-notes.ts";
import { getRecordPhase, planSession } from "./domain/plan-session.ts";
import { findEvent, isFinished, getPodName, computeQueuedUntilMs } from "./domain/session.ts";
import type { SessionStep } from "./domain/session-steps.ts";
import type { SessionPolicy, Snapshot } from "./domain/snapshot.ts";
import { carryOutSteps } from "./carry-out.ts";
import { endBroken } from "./end-broken.ts";
import { releaseAllSessions } from "./release-sessions.ts";
import { SessionLostError, removeLateObjects, takeOverSession } from "./hold-session.ts";
import { observeRun } from "./observe.ts";
import { announceEvents, decidePause, refreshRecord } from "./pass.ts";
import { isQueuedRun, makeSessionRun, RESYNC_MS, type SessionRun } from "./run.ts";
import type { RunEnd, SessionDeps } from "./session-deps.ts";
import { makeSuspectTurns } from "./suspect-turns.ts";
import { withoutEcho } from "./without-echo.ts";

/** The sessions of the leading process. Their state is in their records; everything here can be rebuilt. */
type Sessions = {
  /** Runs one pass over the session of this name: observes, plans, acts and writes until the pass has to wait. */
  readonly reconcile: Reconcile;
  /** Marks that the ledger may have granted the session's machines, so that its next pass queries the ledger. */
  granted(name: string): void;
  /** Lists sessions of this process without a usable queue. */
  unqueued(): readonly string[];
  /** Returns whether this process runs the session now. */
  has(name: string): boolean;
  /** Returns whether the last pass over the session did not know this revision of its record. */
  isUnseenChange(name: string, revision: number): boolean;
  /** Number of sessions with pending work. */
  readonly size: number;
  /** Ends the calls in flight beside passes, and hands all sessions back. Call it after the last pass. `stopping` aborts when the process is about to end. */
  stop(stopping: AbortSignal): Promise<void>;
};

/** The receivers of hints while this process leads. */
export type HintReceivers = {
  readonly token: number;
  readonly queue: Pick<WorkQueue, "add">;
  readonly sessions: Sessions;
};

export type SessionsPolicy = {
  readonly session: SessionPolicy;
  /** Permanent failures after which a session ends as INTERNAL_ERROR. */
  readonly maxFailures: number;
};

/** Pause before the record of a lost session is read again: the session may be gone, or a later leader may run it. */
const LOST_RETRY_MS = 1000;
/** Retry pause of the other suspect sessions while one suspect session runs alone. */
const SUSPECT_RETRY_MS = 200;
/** Maximum remembered sessions that finished and need no pass. */
const MAX_ENDED = 1024;

/** The state of all sessions that a leader keeps beside their records. */
type Table = {
  readonly deps: SessionDeps;
  readonly policy: SessionsPolicy;
  readonly runs: Map<string, SessionRun>;
  /** Sessions whose last pass failed, until the next pass. */
  readonly failing: Map<string, SessionRun>;
  /** Sessions to which the ledger may have granted machines since their last pass. */
  readonly granted: Set<string>;
  readonly suspects: ReturnType<typeof makeSuspectTurns>;
  /** Record revisions of sessions that the ledger queues, by session. */
  readonly waiting: Map<string, number>;
  /** Record revisions of the sessions that this process finished last and whose events are all published. */
  readonly ended: Map<string, number>;
  /** Consecutive permanent failures, by session. */
  readonly failures: Map<string, number>;
};

/** `unchangedMs`: time since the record was written or read. */
type Seen = { readonly run: SessionRun; readonly snapshot: Snapshot; readonly unchangedMs: number };

export function makeSessions(outside: SessionDeps, policy: SessionsPolicy): Sessions {
  const { deps, writing } = withoutEcho(outside);
  const suspects = makeSuspectTurns(deps.monotonicMs);
  const kept = {
    runs: new Map(),
    failing: new Map(),
    granted: new Set<string>(),
    waiting: new Map(),
    ended: new Map(),
    failures: new Map(),
  };
  const table: Table = { deps, policy, suspects, ...kept };
  const { runs, failing, granted, waiting } = table;
  const pass = makeReconciler<Seen, SessionPlan>({
    tracer: "session-controller",
    observe: (name) => observeSession(table, name),
    plan: ({ snapshot, unchangedMs }) => deferNotes(snapshot, planSession(snapshot, policy.session), unchangedMs),
    act: ({ run }, plan) => act(table, run, plan),
    span: ({ run: { record } }, { steps }) =>
      steps.length === 0 ? undefined : deps.span(record, getRecordPhase(record)),
  });
  return {
    reconcile: async (name, signal) => {
      try {
        if (isEnded(table, name)) return {};
        const run = runs.get(name);
        if (run !== undefined) wake(table, run);
        return await pass(name, signal);
      } catch (error) {
        return failed(table, name, error);
      }
    },
    granted: (name) => void granted.add(name),
    unqueued: () => [...runs].flatMap(([name, { reservation }]) => (reservation.state === "unqueued" ? [name] : [])),
    has: (name) => runs.has(name),
    isUnseenChange: (name, revision) =>
      !writing.has(name) && revision > (runs.get(name)?.revision ?? waiting.get(name) ?? -1),
    get size() {
      return runs.size;
    },
    stop: async (stopping) => {
      const all = [...runs.values(), ...failing.values()];
      await Promise.all(all.map((run) => leaveSession(table, run.record.name, "stopped")));
      await releaseAllSessions(deps, all, stopping);
    },
  };
}

/** Returns whether the session is already finished. Events of its last pods trigger a pass after the final one; that pass would publish all events again. */
function isEnded({ deps, ended }: Table, name: string): boolean {
  const revision = ended.get(name);
  if (revision === undefined) return false;
  if (deps.newestRevision(name) <= revision) return true;
  ended.delete(name);
  return false;
}

async function leaveSession(table: Table, name: string, end: RunEnd): Promise<void> {
  const { deps, runs, failing, suspects, granted, waiting, failures } = table;
  const run = runs.get(name);
  runs.delete(name);
  failing.delete(name);
  if (end === "waiting" && run !== undefined) waiting.set(name, run.revision);
  else waiting.delete(name);
  if (end === "finished" && run !== undefined) recordEnded(table, run);
  suspects.release(name);
  if (end === "finished" || end === "gone") {
    granted.delete(name);
    failures.delete(name);
  }
  run?.stopReading.abort();
  await run?.reading;
  deps.left(name, end);
}

/** Records the end of a session, and keeps only the newest ends: the events of a session's last pods arrive soon after its end. */
function recordEnded({ ended }: Table, { record, revision }: SessionRun): void {
  ended.set(record.name, revision);
  const [oldest] = ended.keys();
  if (ended.size > MAX_ENDED && oldest !== undefined) ended.delete(oldest);
}

async function take(table: Table, name: string): Promise<SessionRun | ReconcileResult> {
  const held = await takeOverSession(table.deps, name, () => table.suspects.tryTake(name));
  if (held === "suspect") return { requeueAfterMs: SUSPECT_RETRY_MS };
  if (typeof held === "string") {
    if (held === "lost") table.deps.standDown();
    await leaveSession(table, name, held);
    return {};
  }
  const run = makeSessionRun(held);
  // This process left the session in the ledger's queue, and has already published its events.
  if (table.waiting.get(name) === run.revision) run.announced = run.record.events.length;
  table.failing.delete(name);
  table.runs.set(name, run);
  return run;
}

/** Discards results that may have changed since the previous pass. */
function wake({ deps, granted }: Table, run: SessionRun): void {
  const { name } = run.record;
  if (granted.delete(name) && findEvent(run.record, "ACCEPT") === undefined) run.reservation = { state: "unknown" };
  if (run.reservation.state === "unqueued") run.reservation = { state: "unknown" };
  run.replacements = new Map(
    [...run.replacements].filter(([, { state }]) => state !== "waiting" && state !== "unqueued"),
  );
  const isOld = deps.monotonicMs() - run.oursAtMs >= RESYNC_MS;
  if (isOld || deps.newestRevision(name) > run.revision) run.stale = true;
}

async function observeSession(table: Table, name: string): Promise<ObservedInput<Seen>> {
  const { deps, policy } = table;
  const run = table.runs.get(name) ?? (await take(table, name));
  if (!("record" in run)) return run;
  if (!(await refreshRecord(deps, run))) return decidePause(deps, run, policy.session);
  if (isFinished(run.record)) return finish(table, run);
  const snapshot = await observeRun(deps, policy.session, run);
  return { seen: { run, snapshot, unchangedMs: deps.monotonicMs() - run.oursAtMs } };
}

/** Completes a finished session: only the publication of its last events may remain. */
async function finish(table: Table, run: SessionRun): Promise<ReconcileResult> {
  const { deps, policy } = table;
  await announceEvents(deps, run);
  if (run.announced < run.record.events.length) return decidePause(deps, run, policy.session);
  await leaveSession(table, run.record.name, "finished");
  return {};
}

async function act(
  table: Table,
  run: SessionRun,
  { steps, notesInMs }: SessionPlan,
): Promise<ReconcileResult | "again"> {
  const { deps, policy, suspects, failures } = table;
  if (steps.length > 0) await carryOutSteps(deps, run, steps);
  if (isFinished(run.record)) return finish(table, run);
  await announceEvents(deps, run);
  const { name, attempts } = run.record;
  if (attempts === 0) suspects.release(name);
  const isReported = areReported(deps, run, steps);
  if (steps.length > 0 && !run.failed && !isReported) return "again";
  failures.delete(name);
  // The explanation of the wait for a new pod is a note as well.
  if (!isQueuedRun(run)) return decidePause(deps, run, policy.session, isReported ? NOTE_DELAY_MS : notesInMs);
  await leaveSession(table, name, "waiting");
  return { requeueAfterMs: Math.max(0, computeQueuedUntilMs(run.record) - deps.now()) };
}

/** Steps without a follow-up until an event: the first state of a new pod, or the end of the read. */
const REPORTED: ReadonlySet<SessionStep["kind"]> = new Set(["note-components", "create-pod", "collect-logs"]);

/** Returns whether events report all effects of these steps. A pod that another executor created may have published its state earlier. */
function areReported(deps: SessionDeps, { record, obstacles }: SessionRun, steps: readonly SessionStep[]): boolean {
  if (steps.length === 0 || obstacles.length > 0 || !steps.every(({ kind }) => REPORTED.has(kind))) return false;
  const published = new Set(deps.pods(record).map(({ pod }) => pod));
  return !steps.some((step) => step.kind === "create-pod" && published.has(getPodName(record, step.component.name)));
}

/** Retries transient failures, and ends a session that keeps failing with a defect. */
async function failed(table: Table, name: string, error: unknown): Promise<ReconcileResult> {
  const { deps, policy, failures } = table;
  const run = table.runs.get(name);
  if (error instanceof SessionLostError) {
    if (run !== undefined) await removeLateObjects(deps, run);
    await leaveSession(table, name, "lost");
    return { requeueAfterMs: LOST_RETRY_MS };
  }
  await leaveSession(table, name, "failed");
  if (run !== undefined) table.failing.set(name, run);
  const fault = findFault(error);
  if (fault !== undefined && isRetryable(fault)) throw error;
  const count = (failures.get(name) ?? 0) + 1;
  failures.set(name, count);
  if (count < policy.maxFailures) throw error;
  const reason = `failed ${count} times, at last because ${error instanceof Error ? error.message : String(error)}`;
  deps.logger.error({ session: name, failures: count, err: error }, "session cannot be run");
  // The clean-up that follows has its own attempts.
  if (await endBroken(deps, name, reason)) failures.delete(name);
  throw error;
}
