import { describeFault, faultOf, isRetryable } from "@muster/faults";
import type { Turns } from "@muster/backoff";
import type { LostReason } from "@muster/health";
import type { Logger } from "@muster/service";
import { isNewsMissing, needsListing, withoutUnlisted, type PodNews } from "./domain/decide-listing.ts";
import { planSession, phaseOf, wakeAtMs, type ActStep, type SessionStep } from "./domain/plan-session.ts";
import { grantedNode } from "./domain/replace-machines.ts";
import { eventOf, isFinished, isQueuedAtLedger, type SessionRecord } from "./domain/session.ts";
import type {
  LivePod,
  Obstacle,
  ReplacementSeen,
  ReservationSeen,
  SessionPolicy,
  Snapshot,
} from "./domain/snapshot.ts";
import type { PodSeen } from "./domain/summarise-components.ts";
import type { LogsRead, Outcome } from "./domain/transition-record.ts";
import { ensureOurs, handBack, Lost, reload, remember, takeBack, takeOver, type Held } from "./hold-session.ts";
import type { Waker } from "./wakeups.ts";

export type Stored = { readonly record: SessionRecord; readonly revision: number };

/** What an executor needs from outside. All but `pods`, `podsFresh`, `nodesLost`, `nodesUsable`, `now`, `monotonicMs` and `span` reject with FaultError. */
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
  /** Has the session run by some executor, once more. */
  readonly enqueue: (record: SessionRecord) => Promise<void>;
  readonly pods: (record: SessionRecord) => readonly PodSeen[];
  /** Whether a watcher confirmed lately that it sees the cluster, and what it publishes arrives here. */
  readonly podsFresh: () => boolean;
  /** The lost ones of these nodes, to a session whose pods are on the `occupied` ones. */
  readonly nodesLost: (names: ReadonlySet<string>, occupied: ReadonlySet<string>) => ReadonlyMap<string, LostReason>;
  /** The ones of these nodes on which pods can be started now. */
  readonly nodesUsable: (names: readonly string[]) => ReadonlySet<string>;
  readonly listPods: (record: SessionRecord) => Promise<readonly LivePod[]>;
  /** Does one step at the ledger or the API server, and says what came of it. */
  readonly act: (record: SessionRecord, step: QuickStep) => Promise<Acted>;
  /** Keeps the logs of pods, and reports each pod once its logs are kept or lost. Resolves soon after the signal; rejects for a defect alone. */
  readonly collectLogs: (
    record: SessionRecord,
    step: CollectStep,
    onRead: (read: LogsRead) => void,
    signal: AbortSignal,
  ) => Promise<void>;
  /** Publishes the events of the record from this index on. Those from `newFrom` on were recorded by this executor. */
  readonly announce: (record: SessionRecord, from: number, newFrom: number) => Promise<void>;
  /** How often each session, by its uid, has failed here for no reason that passes. */
  readonly failures: Map<string, number>;
  /** One at a time of the sessions that may have ended their executors. */
  readonly suspects: Turns;
  /** Runs the work under a span of the session's own trace. */
  readonly span: <Result>(record: SessionRecord, phase: string, work: () => Promise<Result>) => Promise<Result>;
};

/** Logs may take a minute, so that no pass waits for them. */
export type CollectStep = Extract<ActStep, { do: "collect-logs" }>;
export type QuickStep = Exclude<ActStep, CollectStep>;

export type Acted =
  | { readonly got: "outcome"; readonly outcome: Outcome }
  | { readonly got: "reservation"; readonly reservation: ReservationSeen }
  | { readonly got: "replacement"; readonly component: string; readonly reservation: ReplacementSeen }
  | { readonly got: "obstacle"; readonly obstacle: Obstacle }
  | { readonly got: "nothing" };

/** finished: nothing is left to do. waiting: the ledger has it in its queue, and it is queued again when that changes. lost: another executor has it. stopped: the signal came first. gone: there is no such session. unreadable: what is stored of it is not a session. */
export type RunEnd = "finished" | "waiting" | "lost" | "stopped" | "gone" | "unreadable";

/** The session that a message asks to be run, and the message. */
export type HeldMessage = {
  readonly name: string;
  readonly uid: string;
  /** Ends the message, which makes room for another; resolves when it is certain that the session can be queued again. */
  readonly letGo: () => Promise<void>;
};

/** However quiet it is, the record is read again this often, should a hint have been lost. */
const LOOK_EVERY_MS = 10_000;
const BACKOFF = { firstMs: 200, mostMs: 10_000 };
/** Steps of one pass that are under way at once. */
const STEPS_AT_ONCE = 32;

/** What one executor knows beyond the record; all of it can be found again by the next one. */
type Run = Held & {
  /** The stored record may be newer. */
  stale: boolean;
  /** A write failed, and may have happened all the same. */
  isWriteUnknown: boolean;
  /** On the monotonic clock: from this moment on pods without news from a watcher are listed at the API server. */
  lookForPodsAtMs: number;
  reservation: ReservationSeen;
  /** By component. */
  replacements: ReadonlyMap<string, ReplacementSeen>;
  obstacles: readonly Obstacle[];
  trouble: { readonly of: "list" | "steps"; readonly text: string } | undefined;
  /** Something failed in this round, which is tried again after a while. */
  failed: boolean;
  /** Ends all reading of logs. */
  readonly stopReading: AbortController;
  /** The reading of logs that is under way. Never rejects. */
  reading: Promise<void> | undefined;
  /** What it reported and the record does not have yet. */
  readonly read: LogsRead[];
  defect: { readonly error: unknown } | undefined;
  readonly waker: Waker;
  /** Rounds in a row in which something failed. */
  failures: number;
  announced: number;
  /** Events that the record had when this executor took it over. */
  readonly inherited: number;
};

/**
 * Takes a session over and runs it until it is finished: observe, plan, act, remember, and again whenever something changes. Whatever happens to this process,
 * the next executor goes on from the record.
 */
export async function runSession(
  deps: ExecutorDeps,
  policy: SessionPolicy,
  session: HeldMessage,
  signal: AbortSignal,
): Promise<RunEnd> {
  using waker = deps.wake(session.name);
  using turn = new DisposableStack();
  const held = await takeOver(deps, session, turn, signal);
  if (held === "unreadable") return held;
  if (held === undefined) return signal.aborted ? "stopped" : "gone";
  const run = newRun(held, waker);
  try {
    while (!isAborted(signal)) {
      if (!(await beginRound(deps, run))) {
        run.failures += 1;
        await rest(deps, run, policy, waker, signal);
        continue;
      }
      const steps = planSession(await observe(deps, run), policy);
      if (steps.length > 0) await passUnlessStoreFails(deps, policy, run, steps);
      await announce(deps, run);
      if (run.record.attempts === 0) turn.dispose();
      run.failures = run.failed ? run.failures + 1 : 0;
      if (isFinished(run.record) && run.announced === run.record.events.length) return "finished";
      if (steps.length === 0 && isIdle(run) && !waker.isDue(run.revision)) {
        await session.letGo();
        // While the message was there nobody could queue the session; what was heard meanwhile is ours to pass on.
        if (waker.isDue(run.revision)) await deps.enqueue(run.record);
        return "waiting";
      }
      if (steps.length === 0 || run.failed) await rest(deps, run, policy, waker, signal);
    }
    await handBack(deps, run);
    return "stopped";
  } catch (error) {
    if (error instanceof Lost) return "lost";
    await handBack(deps, run);
    throw error;
  } finally {
    run.stopReading.abort();
    await run.reading;
  }
}

function newRun(held: Held, waker: Waker): Run {
  const { record, oursAtMs } = held;
  return {
    ...held,
    stale: false,
    isWriteUnknown: false,
    // What the executor before us has made may have gone since; what we make ourselves is given the time to be seen.
    lookForPodsAtMs: record.components.some(({ podUid }) => podUid !== "") ? oursAtMs : oursAtMs + LOOK_EVERY_MS,
    reservation: { state: "unknown" },
    replacements: new Map(),
    obstacles: [],
    trouble: undefined,
    failed: false,
    stopReading: new AbortController(),
    reading: undefined,
    read: [],
    defect: undefined,
    waker,
    failures: 0,
    announced: 0,
    inherited: record.events.length,
  };
}

/** However many sessions wait at the ledger, they take no place from one that has something to do. */
function isIdle({ record, reservation, failed }: Run): boolean {
  return !failed && isQueuedAtLedger(record) && reservation.state === "waiting";
}

async function observe(deps: ExecutorDeps, run: Run): Promise<Snapshot> {
  const { record, reservation, replacements, obstacles } = run;
  // Before the list, so that a time limit that has passed by now is decided on one.
  const nowMs = deps.now();
  // Also what was read during the last write.
  const isReading = run.reading !== undefined || run.read.length > 0;
  const published = (): readonly PodSeen[] => (record.verdict === undefined ? deps.pods(record) : []);
  const isListDue = deps.monotonicMs() >= run.lookForPodsAtMs;
  const { nodesLost, nodesBack } = observeNodes(deps, run);
  const podsFresh = deps.podsFresh();
  const news = { nowMs, record, pods: published(), podsFresh, nodesLost, isListDue };
  const livePods = await observeLivePods(deps, run, news);
  // After the list: a pod that went away before it is seen to have ended, if anybody saw it.
  const pods = podsFresh ? published() : withoutUnlisted(published(), livePods);
  const trouble = run.trouble?.text;
  const heldMs = deps.monotonicMs() - run.oursAtMs;
  const known = { nowMs, heldMs, record, reservation, pods, livePods, isReading, obstacles, nodesLost, nodesBack };
  return { ...known, replacements, trouble };
}

/** The lost ones of the machines that components have, or were granted in place of lost ones, and the usable ones of those that were lost. */
function observeNodes(deps: ExecutorDeps, { record, replacements }: Run): Pick<Snapshot, "nodesLost" | "nodesBack"> {
  const granted = [...replacements.values()].flatMap((replacement) => grantedNode(replacement) ?? []);
  const held = record.components.flatMap(({ node }) => (node === "" ? [] : [node]));
  const once = record.components.flatMap(({ lostNode }) => (lostNode === "" ? [] : [lostNode]));
  // A cordon takes no machine from a session that is over.
  const occupied = new Set(record.verdict === undefined ? deps.pods(record).map(({ node }) => node) : held);
  return { nodesLost: deps.nodesLost(new Set([...held, ...granted]), occupied), nodesBack: deps.nodesUsable(once) };
}

async function observeLivePods(deps: ExecutorDeps, run: Run, news: PodNews): Promise<readonly LivePod[] | undefined> {
  if (!needsListing(news)) {
    if (run.trouble?.of === "list" && !isNewsMissing(news)) run.trouble = undefined;
    return undefined;
  }
  try {
    const listed = await deps.listPods(news.record);
    if (run.trouble?.of === "list") run.trouble = undefined;
    run.lookForPodsAtMs = deps.monotonicMs() + LOOK_EVERY_MS;
    return listed;
  } catch (error) {
    run.trouble = { of: "list", text: textOf(error) };
    run.failed = true;
    return undefined;
  }
}

/** What came of the steps of one pass, which were planned for this record. */
type Effects = {
  readonly before: SessionRecord;
  readonly outcomes: Outcome[];
  readonly obstacles: Obstacle[];
  readonly failures: string[];
  reservation: ReservationSeen | undefined;
  readonly replacements: Map<string, ReplacementSeen>;
};

/** A store that is full or away fails the round: the next one reads the record first, after a pause that the signal ends, and plans what is missing again. */
async function passUnlessStoreFails(
  deps: ExecutorDeps,
  policy: SessionPolicy,
  run: Run,
  steps: readonly SessionStep[],
): Promise<void> {
  try {
    await pass(deps, policy, run, steps);
  } catch (error) {
    const fault = faultOf(error);
    if (fault === undefined || !isRetryable(fault)) throw error;
    run.failed = true;
    run.isWriteUnknown = true;
    deps.logger.warn({ session: run.record.name, reason: describeFault(fault) }, "the record was not written");
  }
}

/** Does all steps, and remembers together what came of them. A step that fails takes nothing from the others. */
async function pass(deps: ExecutorDeps, policy: SessionPolicy, run: Run, steps: readonly SessionStep[]): Promise<void> {
  await deps.span(run.record, phaseOf(run.record), async () => {
    const effects: Effects = {
      before: run.record,
      outcomes: [],
      obstacles: [],
      failures: [],
      reservation: undefined,
      replacements: new Map(),
    };
    try {
      await doSteps(deps, policy, run, steps, effects);
      if (effects.reservation !== undefined) run.reservation = effects.reservation;
      run.replacements = new Map([...run.replacements, ...effects.replacements]);
      if (steps.some(isAct)) noteEffects(run, effects.obstacles, effects.failures);
      await remember(deps, run, effects.outcomes);
    } catch (error) {
      const { outcomes, reservation = run.reservation } = effects;
      if (error instanceof Lost) await takeBack(deps, run, { outcomes, reservation });
      throw error;
    }
  });
}

/** Rejects only when no step is under way any more, so that all effects are known by then. */
async function doSteps(
  deps: ExecutorDeps,
  policy: SessionPolicy,
  run: Run,
  steps: readonly SessionStep[],
  effects: Effects,
): Promise<void> {
  const queue = steps.values();
  let broken = false;
  const lane = async (): Promise<void> => {
    for (const step of queue) {
      deps.logger.info({ session: run.record.name, step: summaryOf(step) }, "session step");
      try {
        if (isAct(step)) await doAct(deps, policy, run, step, effects);
        else effects.outcomes.push(step);
      } catch (error) {
        broken = true;
        throw error;
      }
      if (broken) return;
    }
  };
  const ends = await Promise.allSettled(Array.from({ length: Math.min(STEPS_AT_ONCE, steps.length) }, lane));
  for (const end of ends) if (end.status === "rejected") throw end.reason;
}

async function doAct(
  deps: ExecutorDeps,
  policy: SessionPolicy,
  run: Run,
  step: ActStep,
  effects: Effects,
): Promise<void> {
  try {
    await ensureOurs(deps, policy, run);
    if (step.do === "collect-logs") {
      startReading(deps, run, step);
      return;
    }
    const acted = await deps.act(effects.before, step);
    if (acted.got === "outcome") effects.outcomes.push(acted.outcome);
    if (acted.got === "reservation") effects.reservation = acted.reservation;
    if (acted.got === "replacement") effects.replacements.set(acted.component, acted.reservation);
    if (acted.got === "obstacle") effects.obstacles.push(acted.obstacle);
  } catch (error) {
    effects.failures.push(textOf(error));
  }
}

/** The round that follows its end remembers what it reported; one that takes longer is remembered in parts. */
function startReading(deps: ExecutorDeps, run: Run, step: CollectStep): void {
  const { record, stopReading, read, waker } = run;
  run.reading = deps
    .collectLogs(record, step, (logs) => void read.push(logs), stopReading.signal)
    .catch((error: unknown) => {
      run.defect = { error };
    })
    .finally(() => {
      run.reading = undefined;
      waker.ring();
    });
}

function noteEffects(run: Run, obstacles: readonly Obstacle[], failures: readonly string[]): void {
  run.obstacles = obstacles;
  const [first] = failures;
  run.trouble = first === undefined ? undefined : { of: "steps", text: first };
  // A pod that is in the way needs its time to go.
  if (first !== undefined || obstacles.some(({ kind }) => kind === "leftover")) run.failed = true;
}

/** Publishes what is not published yet. The record is the truth, so a failure only means trying again. */
async function announce(deps: ExecutorDeps, run: Run): Promise<void> {
  const count = run.record.events.length;
  if (run.announced === count) return;
  try {
    await deps.announce(run.record, run.announced, run.inherited);
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
  const { record, reservation } = run;
  const wakeAt = wakeAtMs({ nowMs, record, reservation }, policy) ?? nowMs + LOOK_EVERY_MS;
  const backoffMs = Math.min(BACKOFF.mostMs, BACKOFF.firstMs * 2 ** Math.min(run.failures, 16));
  const ms = run.failed ? backoffMs : Math.max(0, Math.min(wakeAt - nowMs, LOOK_EVERY_MS));
  const heard = await waker.wait({ ms, knownRevision: run.revision, signal });
  if (heard.granted && eventOf(record, "ACCEPT") === undefined) run.reservation = { state: "unknown" };
  // What waited may be granted by now.
  run.replacements = new Map([...run.replacements].filter(([, { state }]) => state !== "waiting"));
  const quiet = !heard.granted && !heard.podsChanged;
  if (quiet || heard.revision > run.revision) run.stale = true;
}

/** False: a write may have happened or not, so that nothing can be planned before the record is read. */
async function beginRound(deps: ExecutorDeps, run: Run): Promise<boolean> {
  run.failed = false;
  if (run.defect !== undefined) throw run.defect.error;
  try {
    if (run.stale || run.isWriteUnknown) await reload(deps, run);
    run.stale = false;
    run.isWriteUnknown = run.read.length > 0;
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

function isAct(step: SessionStep): step is ActStep {
  switch (step.do) {
    case "reserve":
    case "create-pod":
    case "collect-logs":
    case "delete-pod":
    case "release":
    case "reserve-replacement":
    case "release-replacement":
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
