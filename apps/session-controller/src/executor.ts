import { describeFault, faultOf, isRetryable } from "@muster/faults";
import type { Logger } from "@muster/service";
import { planSession, phaseOf, wakeAtMs, type ActStep, type SessionStep } from "./domain/plan-session.ts";
import { eventOf, isFinished, type SessionRecord } from "./domain/session.ts";
import type { LivePod, Obstacle, ReservationSeen, SessionPolicy, Snapshot } from "./domain/snapshot.ts";
import { isAnyUnseen, type PodSeen } from "./domain/summarise-components.ts";
import { transitionRecord, transitionTakeOver, type Outcome } from "./domain/transition-record.ts";
import type { Waker } from "./wakeups.ts";

export type Stored = { readonly record: SessionRecord; readonly revision: number };

/** What an executor needs from outside. All but `pods`, `now`, `monotonicMs` and `span` reject with FaultError. */
export type ExecutorDeps = {
  readonly now: () => number;
  /** Counts on while the process is stopped, and is never set. */
  readonly monotonicMs: () => number;
  /** Named in the record of every session that this process runs. */
  readonly executor: string;
  readonly logger: Logger;
  readonly load: (name: string) => Promise<Stored | undefined>;
  /** Writes what replaces exactly this revision; conflict otherwise. Returns the new revision. */
  readonly save: (record: SessionRecord, revision: number) => Promise<number>;
  readonly wake: (name: string) => Waker;
  readonly pods: (record: SessionRecord) => readonly PodSeen[];
  readonly listPods: (record: SessionRecord) => Promise<readonly LivePod[]>;
  /** Does one step at the ledger or the API server, and says what came of it. */
  readonly act: (record: SessionRecord, step: ActStep) => Promise<Acted>;
  /** Publishes the events of the record from this index on. */
  readonly announce: (record: SessionRecord, from: number) => Promise<void>;
  /** Runs the work under a span of the session's own trace. */
  readonly span: <Result>(record: SessionRecord, phase: string, work: () => Promise<Result>) => Promise<Result>;
};

export type Acted =
  | { readonly got: "outcome"; readonly outcome: Outcome }
  | { readonly got: "reservation"; readonly reservation: ReservationSeen }
  | { readonly got: "obstacle"; readonly obstacle: Obstacle }
  | { readonly got: "nothing" };

/** finished: nothing is left to do. lost: another executor has it. stopped: the signal came first. gone: there is no such session. */
export type RunEnd = "finished" | "lost" | "stopped" | "gone";

/** However quiet it is, the record is read again this often, should a hint have been lost. */
const LOOK_EVERY_MS = 10_000;
const BACKOFF = { firstMs: 200, mostMs: 10_000 };
/** Steps of one pass that are under way at once. */
const STEPS_AT_ONCE = 32;

/** What one executor knows beyond the record; all of it can be found again by the next one. */
type Run = {
  record: SessionRecord;
  revision: number;
  /** The stored record may be newer. */
  stale: boolean;
  /** On the monotonic clock: pods of which nothing is seen are looked for at the API server from this moment on. */
  lookForPodsAtMs: number;
  /** On the monotonic clock: the session was ours at this moment. */
  oursAtMs: number;
  /** A check of that which is under way; the steps of one pass share it. */
  checking: Promise<void> | undefined;
  reservation: ReservationSeen;
  obstacles: readonly Obstacle[];
  trouble: { readonly of: "list" | "steps"; readonly text: string } | undefined;
  /** Something failed in this round, which is tried again after a while. */
  failed: boolean;
  /** Rounds in a row in which something failed. */
  failures: number;
  announced: number;
};

/** Thrown when the record turns out to belong to somebody else. */
class Lost extends Error {}

/**
 * Takes a session over and runs it until it is finished: observe, plan, act, remember, and again whenever something changes. Whatever happens to this process,
 * the next executor goes on from the record.
 */
export async function runSession(
  deps: ExecutorDeps,
  policy: SessionPolicy,
  session: { readonly name: string; readonly uid: string },
  signal: AbortSignal,
): Promise<RunEnd> {
  using waker = deps.wake(session.name);
  const run = await takeOver(deps, session, signal);
  if (run === undefined) return signal.aborted ? "stopped" : "gone";
  try {
    while (!isAborted(signal)) {
      await beginRound(deps, run);
      const steps = planSession(await observe(deps, run), policy);
      if (steps.length > 0) await pass(deps, policy, run, steps);
      await announce(deps, run);
      run.failures = run.failed ? run.failures + 1 : 0;
      if (isFinished(run.record) && run.announced === run.record.events.length) return "finished";
      if (steps.length === 0 || run.failed) await rest(deps, run, policy, waker, signal);
    }
    return "stopped";
  } catch (error) {
    if (error instanceof Lost) return "lost";
    throw error;
  }
}

/** Raises the epoch, so that whoever had the session before can no longer write. */
async function takeOver(
  deps: ExecutorDeps,
  { name, uid }: { readonly name: string; readonly uid: string },
  signal: AbortSignal,
): Promise<Run | undefined> {
  while (!signal.aborted) {
    const oursAtMs = deps.monotonicMs();
    const stored = await deps.load(name);
    if (stored?.record.uid !== uid) return undefined;
    if (isFinished(stored.record)) return newRun(stored, oursAtMs);
    const record = transitionTakeOver(stored.record, deps.executor);
    try {
      const revision = await deps.save(record, stored.revision);
      deps.logger.info({ session: name, epoch: record.epoch, phase: phaseOf(record) }, "session taken over");
      return newRun({ record, revision }, oursAtMs);
    } catch (error) {
      if (faultOf(error)?.code !== "conflict") throw error;
    }
  }
  return undefined;
}

function newRun({ record, revision }: Stored, oursAtMs: number): Run {
  return {
    record,
    revision,
    stale: false,
    // What the executor before us has made may have gone since; what we make ourselves is given the time to be seen.
    lookForPodsAtMs: record.components.some(({ podUid }) => podUid !== "") ? oursAtMs : oursAtMs + LOOK_EVERY_MS,
    oursAtMs,
    checking: undefined,
    reservation: { state: "unknown" },
    obstacles: [],
    trouble: undefined,
    failed: false,
    failures: 0,
    announced: 0,
  };
}

async function observe(deps: ExecutorDeps, run: Run): Promise<Snapshot> {
  const { record, reservation, obstacles } = run;
  const livePods = await observeLivePods(deps, run);
  // After the list: a pod that went away before it is seen to have ended, if anybody saw it.
  const pods = record.verdict === undefined ? deps.pods(record) : [];
  return { nowMs: deps.now(), record, reservation, pods, livePods, obstacles, trouble: run.trouble?.text };
}

async function observeLivePods(deps: ExecutorDeps, run: Run): Promise<readonly LivePod[] | undefined> {
  const { record } = run;
  if (record.podsDeleted || isFinished(record)) return undefined;
  if (record.verdict === undefined && !isLookDue(deps, run)) {
    if (run.trouble?.of === "list" && !isAnyUnseen(record, deps.pods(record))) run.trouble = undefined;
    return undefined;
  }
  try {
    const listed = await deps.listPods(record);
    if (run.trouble?.of === "list") run.trouble = undefined;
    run.lookForPodsAtMs = deps.monotonicMs() + LOOK_EVERY_MS;
    return listed;
  } catch (error) {
    run.trouble = { of: "list", text: textOf(error) };
    run.failed = true;
    return undefined;
  }
}

/** A pod that ended and went away while nobody watched is missed by looking for it, now and then. */
function isLookDue(deps: ExecutorDeps, { record, lookForPodsAtMs }: Run): boolean {
  return deps.monotonicMs() >= lookForPodsAtMs && isAnyUnseen(record, deps.pods(record));
}

/** Does all steps, and remembers together what came of them. A step that fails takes nothing from the others. */
async function pass(deps: ExecutorDeps, policy: SessionPolicy, run: Run, steps: readonly SessionStep[]): Promise<void> {
  await deps.span(run.record, phaseOf(run.record), async () => {
    const before = run.record;
    const obstacles: Obstacle[] = [];
    const outcomes: Outcome[] = [];
    const failures: string[] = [];
    const one = async (step: SessionStep): Promise<void> => {
      deps.logger.info({ session: before.name, step: summaryOf(step) }, "session step");
      if (!isAct(step)) {
        outcomes.push(step);
        return;
      }
      try {
        await ensureOurs(deps, policy, run);
        const acted = await deps.act(before, step);
        if (acted.got === "outcome") outcomes.push(acted.outcome);
        if (acted.got === "reservation") run.reservation = acted.reservation;
        if (acted.got === "obstacle") obstacles.push(acted.obstacle);
      } catch (error) {
        failures.push(textOf(error));
      }
    };
    const queue = steps.values();
    const lane = async (): Promise<void> => {
      for (const step of queue) await one(step);
    };
    await Promise.all(Array.from({ length: STEPS_AT_ONCE }, lane));
    if (steps.some(isAct)) noteEffects(run, obstacles, failures);
    await remember(deps, run, outcomes);
  });
}

/**
 * A process that was stopped for a while may have been replaced, and its machines given to somebody else, without its noticing; so it looks before it touches
 * the world. Nothing can be done about a request that was already on its way when the process stopped: what it makes, the sweep removes.
 */
async function ensureOurs(deps: ExecutorDeps, policy: SessionPolicy, run: Run): Promise<void> {
  if (deps.monotonicMs() - run.oursAtMs <= policy.trustRecordMs) return;
  run.checking ??= reload(deps, run).finally(() => {
    run.checking = undefined;
  });
  await run.checking;
}

function noteEffects(run: Run, obstacles: readonly Obstacle[], failures: readonly string[]): void {
  run.obstacles = obstacles;
  const [first] = failures;
  run.trouble = first === undefined ? undefined : { of: "steps", text: first };
  // A pod that is in the way needs its time to go.
  if (first !== undefined || obstacles.some(({ kind }) => kind === "leftover")) run.failed = true;
}

/** Writes the outcomes into the record. When a user's write came first they go onto that; when another executor's did, the session is lost. */
async function remember(deps: ExecutorDeps, run: Run, outcomes: readonly Outcome[]): Promise<void> {
  while (outcomes.length > 0) {
    const next = outcomes.reduce(transitionRecord, run.record);
    const oursAtMs = deps.monotonicMs();
    try {
      run.revision = await deps.save(next, run.revision);
      run.record = next;
      run.oursAtMs = oursAtMs;
      return;
    } catch (error) {
      const fault = faultOf(error);
      if (fault === undefined || !isRetryable(fault)) throw error;
      // After anything but a conflict it is not known whether the write has happened; reading tells, and writing again is harmless.
      await reload(deps, run);
    }
  }
}

async function reload(deps: ExecutorDeps, run: Run): Promise<void> {
  const oursAtMs = deps.monotonicMs();
  const stored = await deps.load(run.record.name);
  if (stored === undefined || stored.record.uid !== run.record.uid || stored.record.epoch !== run.record.epoch) {
    throw new Lost();
  }
  run.record = stored.record;
  run.revision = stored.revision;
  run.oursAtMs = oursAtMs;
}

/** Publishes what is not published yet. The record is the truth, so a failure only means trying again. */
async function announce(deps: ExecutorDeps, run: Run): Promise<void> {
  const count = run.record.events.length;
  if (run.announced === count) return;
  try {
    await deps.announce(run.record, run.announced);
    run.announced = count;
  } catch (error) {
    run.failed = true;
    deps.logger.warn({ session: run.record.name, reason: textOf(error) }, "events not published yet");
  }
}

async function rest(
  deps: ExecutorDeps,
  run: Run,
  policy: SessionPolicy,
  waker: Waker,
  signal: AbortSignal,
): Promise<void> {
  const nowMs = deps.now();
  const { record, reservation, obstacles } = run;
  const snapshot = { nowMs, record, reservation, pods: [], livePods: undefined, obstacles, trouble: undefined };
  const wakeAt = wakeAtMs(snapshot, policy) ?? nowMs + LOOK_EVERY_MS;
  const backoffMs = Math.min(BACKOFF.mostMs, BACKOFF.firstMs * 2 ** Math.min(run.failures, 16));
  const ms = run.failed ? backoffMs : Math.max(0, Math.min(wakeAt - nowMs, LOOK_EVERY_MS));
  const heard = await waker.wait({ ms, knownRevision: run.revision, signal });
  if (heard.granted && eventOf(record, "ACCEPT") === undefined) run.reservation = { state: "unknown" };
  const quiet = !heard.granted && !heard.podsChanged;
  if (quiet || heard.revision > run.revision) run.stale = true;
}

async function beginRound(deps: ExecutorDeps, run: Run): Promise<void> {
  run.failed = false;
  if (!run.stale) return;
  try {
    await reload(deps, run);
    run.stale = false;
  } catch (error) {
    if (error instanceof Lost || faultOf(error) === undefined) throw error;
    run.failed = true;
  }
}

function isAct(step: SessionStep): step is ActStep {
  switch (step.do) {
    case "reserve":
    case "create-pod":
    case "collect-logs":
    case "delete-pod":
    case "release":
      return true;
    default:
      return false;
  }
}

function summaryOf(step: SessionStep): object {
  switch (step.do) {
    case "create-pod":
      return { do: step.do, component: step.component.name, node: step.node, because: step.because };
    case "note-components": {
      const states = step.components.map(({ name, state }) => `${name} ${state}`);
      return { do: step.do, states, because: step.because };
    }
    case "collect-logs":
      return { do: step.do, pods: step.pods.map(({ pod }) => pod), because: step.because };
    default:
      return step;
  }
}

/** A fault in words; anything else is a defect and goes on up. */
function textOf(error: unknown): string {
  const fault = faultOf(error);
  if (fault === undefined) throw error;
  return describeFault(fault);
}

/** Read through a function, because it changes while somebody waits. */
function isAborted(signal: AbortSignal): boolean {
  return signal.aborted;
}
