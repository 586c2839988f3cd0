import type { Reconciled } from "@muster/controller";
import { assertNever, describeFault, faultOf, isRetryable } from "@muster/faults";
import {
  isNewsMissing,
  isProgressReported,
  needsListing,
  withoutUnlisted,
  type PodNews,
} from "./domain/decide-listing.ts";
import { BRIEF_MS } from "./domain/defer-notes.ts";
import { machinesOf, placesOf } from "./domain/component-machines.ts";
import { planEnd } from "./domain/plan-cleanup.ts";
import { wakeAtMs } from "./domain/plan-session.ts";
import type { ActStep, SessionStep } from "./domain/session-steps.ts";
import type { SessionRecord } from "./domain/session.ts";
import type {
  LivePod,
  Obstacle,
  ReplacementSeen,
  ReservationSeen,
  SessionPolicy,
  Snapshot,
} from "./domain/snapshot.ts";
import type { PodSeen } from "./domain/summarise-components.ts";
import { transitionRecord, type Outcome } from "./domain/transition-record.ts";
import { ensureLead, Lost, reload, remember } from "./hold-session.ts";
import { RESYNC_MS, type Run } from "./run.ts";
import type { Acted, CollectStep, SessionDeps } from "./session-deps.ts";

/** Maximum concurrent steps of one pass. */
const MAX_CONCURRENT_STEPS = 32;

/**
 * Writes the reported progress of reading logs, on the newest record if that may have changed. False: the outcome of a write is unknown, so that nothing can be
 * planned before the record is read. Throws the error of a read that failed by a defect.
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

/** The next pass if nothing more can be done now; `notesInMs`: when notes that were left out are due. */
export function pauseOf(deps: SessionDeps, run: Run, policy: SessionPolicy, notesInMs = Infinity): Reconciled {
  if (run.failed) return { isFailed: true };
  const nowMs = deps.now();
  const { record, reservation, isProgressReported } = run;
  const wakeAt = wakeAtMs({ nowMs, record, reservation, isProgressReported }, policy) ?? Infinity;
  const writeInMs = run.unwritten.length === 0 ? Infinity : BRIEF_MS - (deps.monotonicMs() - run.oursAtMs);
  return { requeueAfterMs: Math.max(0, Math.min(wakeAt - nowMs, RESYNC_MS, notesInMs, writeInMs)) };
}

export async function observe(deps: SessionDeps, policy: SessionPolicy, run: Run): Promise<Snapshot> {
  const { record, reservation, replacements, obstacles } = run;
  // Before the list, so that a time limit that has passed by now is decided on one.
  const nowMs = deps.now();
  // Also what was read during the last write.
  const isReading = run.reading !== undefined || run.read.length > 0;
  const isListDue = deps.monotonicMs() >= run.listPodsAtMs;
  const podsFresh = deps.podsFresh();
  const seen = deps.pods(record);
  const nodes = observeNodes(deps, run, seen, nowMs);
  const news = { nowMs, record, podsFresh, ...nodes };
  const listed = youngList(deps, policy, run, { ...news, pods: seen });
  const livePods = await observeLivePods(deps, run, { ...news, pods: seen, isListDue, listed, isReading });
  // After a list: a pod that disappears has ended first, if a watcher saw it.
  const newest = livePods === undefined ? seen : deps.pods(record);
  const isReported = record.verdict !== undefined && isProgressReported({ ...news, pods: newest, listed: livePods });
  run.isProgressReported = isReported;
  const published = record.verdict === undefined ? newest : [];
  const pods = podsFresh ? published : withoutUnlisted(published, livePods);
  const trouble = run.trouble?.text;
  const heldMs = deps.monotonicMs() - run.takenAtMs;
  const known = { nowMs, heldMs, record, reservation, pods, livePods, isReading, obstacles, ...nodes };
  return { ...known, isProgressReported: isReported, replacements, trouble };
}

/** The last list of a clean-up. While events report what changes, a new one only repairs the loss of an event. */
function youngList(
  { monotonicMs }: SessionDeps,
  { lookAgainMs }: SessionPolicy,
  { lastList }: Run,
  news: Omit<Parameters<typeof isProgressReported>[0], "listed">,
): PodNews["listed"] {
  if (lastList === undefined) return undefined;
  const { atMs, pods } = lastList;
  const keptMs = isProgressReported({ ...news, listed: pods }) ? Math.max(RESYNC_MS, lookAgainMs) : lookAgainMs;
  return monotonicMs() - atMs < keptMs ? pods : undefined;
}

type NodesSeen = Pick<Snapshot, "nodesLost" | "nodesBack" | "nodesUnschedulable" | "crowded">;

/** What is lost, or usable again, of the machines that components have, were granted in place of lost ones, or have lost. */
function observeNodes(
  deps: SessionDeps,
  { record, replacements }: Run,
  pods: readonly PodSeen[],
  nowMs: number,
): NodesSeen {
  const { nodes, lostNodes, sharedNodes, tolerations } = machinesOf({ record, replacements });
  const held = record.components.flatMap(({ node }) => (node === "" ? [] : [node]));
  // A cordon takes no machine from a session that is over.
  const occupied = new Set(record.verdict === undefined ? pods.map(({ node }) => node) : held);
  const seen = {
    nodesLost: deps.nodesLost(nodes, occupied, tolerations),
    nodesBack: deps.nodesUsable(lostNodes, tolerations),
  };
  // A component that waits for another machine has no node, but the one that it lost may be crowded.
  if (record.verdict !== undefined || !record.spec.components.some(({ shared }) => shared)) return seen;
  return {
    ...seen,
    nodesUnschedulable: deps.nodesLost(sharedNodes, new Set(), tolerations),
    crowded: deps.crowding(record.uid, placesOf({ record, replacements, pods }), nowMs),
  };
}

async function observeLivePods(deps: SessionDeps, run: Run, news: PodNews): Promise<readonly LivePod[] | undefined> {
  if (!needsListing(news)) {
    if (run.trouble?.of === "list" && !isNewsMissing(news)) run.trouble = undefined;
    return news.listed;
  }
  try {
    const listed = await deps.listPods(news.record);
    if (run.trouble?.of === "list") run.trouble = undefined;
    const atMs = deps.monotonicMs();
    run.listPodsAtMs = atMs + RESYNC_MS;
    // One from before the verdict does not say what there is to read and to delete.
    run.lastList = news.record.verdict === undefined ? undefined : { atMs, pods: listed };
    return listed;
  } catch (error) {
    run.trouble = { of: "list", text: textOf(error) };
    run.failed = true;
    return undefined;
  }
}

/** The outcomes of the steps of one pass, which were planned for this record. */
type Effects = {
  readonly before: SessionRecord;
  readonly outcomes: Outcome[];
  readonly obstacles: Obstacle[];
  readonly failures: string[];
  reservation: ReservationSeen | undefined;
  readonly replacements: Map<string, ReplacementSeen>;
};

/** Executes all steps and writes their outcomes. A full or unavailable store fails the round: after a pause the next one reads the record and plans again. */
export async function carryOut(deps: SessionDeps, run: Run, steps: readonly SessionStep[]): Promise<void> {
  try {
    await pass(deps, run, steps);
  } catch (error) {
    const fault = faultOf(error);
    if (fault === undefined || !isRetryable(fault)) throw error;
    run.failed = true;
    run.isWriteUnknown = true;
    deps.logger.warn({ session: run.record.name, reason: describeFault(fault) }, "cannot write the record");
  }
}

/** A failed step does not affect the others: their outcomes are written before its defect is thrown. */
async function pass(deps: SessionDeps, run: Run, steps: readonly SessionStep[]): Promise<void> {
  const effects: Effects = {
    before: run.record,
    outcomes: [],
    obstacles: [],
    failures: [],
    reservation: undefined,
    replacements: new Map(),
  };
  const defect = await doSteps(deps, run, steps, effects);
  const { outcomes, obstacles, failures, reservation = run.reservation, replacements } = effects;
  run.reservation = reservation;
  run.replacements = new Map([...run.replacements, ...replacements]);
  if (steps.some(isAct)) noteEffects(run, obstacles, failures);
  // What ends the clean-up is written together with the terminal event.
  const end = planEnd(outcomes.reduce(transitionRecord, run.record), deps.now());
  try {
    await remember(deps, run, end === undefined ? outcomes : [...outcomes, end]);
  } catch (error) {
    if (error instanceof Lost) run.unwritten = [...run.unwritten, ...outcomes];
    throw error;
  }
  if (defect !== undefined) throw defect.error;
}

/** Returns the first defect of a step, once no step is in flight, so that all effects are known. */
async function doSteps(
  deps: SessionDeps,
  run: Run,
  steps: readonly SessionStep[],
  effects: Effects,
): Promise<{ readonly error: unknown } | undefined> {
  deps.logger.info({ session: run.record.name, steps: steps.map(summaryOf) }, "session steps");
  const queue = steps.values();
  let defect: { readonly error: unknown } | undefined;
  const lane = async (): Promise<void> => {
    for (const step of queue) {
      try {
        if (isAct(step)) await doAct(deps, run, step, effects);
        else effects.outcomes.push(step);
      } catch (error) {
        defect ??= { error };
      }
      if (defect !== undefined) return;
    }
  };
  await Promise.all(Array.from({ length: Math.min(MAX_CONCURRENT_STEPS, steps.length) }, lane));
  return defect;
}

async function doAct(deps: SessionDeps, run: Run, step: ActStep, effects: Effects): Promise<void> {
  try {
    ensureLead(deps);
    if (step.kind === "collect-logs") {
      startReading(deps, run, step);
      return;
    }
    const acted = await deps.act(effects.before, step);
    if (step.kind === "delete-pod") noteDeletion(run, step.uid);
    noteActed(effects, acted);
  } catch (error) {
    effects.failures.push(textOf(error));
  }
}

function noteActed(effects: Effects, acted: Acted): void {
  switch (acted.kind) {
    case "outcome":
      effects.outcomes.push(acted.outcome);
      return;
    case "reservation":
      effects.reservation = acted.reservation;
      return;
    case "replacement":
      effects.replacements.set(acted.component, acted.reservation);
      return;
    case "obstacle":
      effects.obstacles.push(acted.obstacle);
      return;
    case "nothing":
      return;
    default:
      assertNever(acted);
  }
}

/** Of what was listed: it is on its way, and is not deleted again before the next list. */
function noteDeletion(run: Run, uid: string): void {
  if (run.lastList === undefined) return;
  const pods = run.lastList.pods.map((pod) =>
    pod.uid === uid ? { ...pod, deleting: true, overdueOn: undefined } : pod,
  );
  run.lastList = { ...run.lastList, pods };
}

/** The next round after the end of the read records its report; a longer read is recorded in parts. */
function startReading(deps: SessionDeps, run: Run, step: CollectStep): void {
  const { record, stopReading, read } = run;
  run.reading = deps
    .collectLogs(record, step, (logs) => void read.push(logs), stopReading.signal)
    .catch((error: unknown) => {
      run.defect = { error };
    })
    .finally(() => {
      run.reading = undefined;
      deps.wake(record.name);
    });
}

function noteEffects(run: Run, obstacles: readonly Obstacle[], failures: readonly string[]): void {
  run.obstacles = obstacles;
  const [first] = failures;
  run.trouble = first === undefined ? undefined : { of: "steps", text: first };
  // An obstructing pod needs time to terminate.
  if (first !== undefined || obstacles.some(({ kind }) => kind === "leftover")) run.failed = true;
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

/** Complete, so that a new step is not taken for an outcome. */
const ACTS: Readonly<Record<ActStep["kind"], true>> = {
  reserve: true,
  "create-pod": true,
  "collect-logs": true,
  "delete-pod": true,
  release: true,
  "reserve-replacement": true,
  "release-replacement": true,
};

function isAct(step: SessionStep): step is ActStep {
  return step.kind in ACTS;
}

function summaryOf(step: SessionStep): object {
  switch (step.kind) {
    case "create-pod":
      return { kind: step.kind, component: step.component.name, node: step.node, because: step.because };
    case "note-components": {
      const states = step.components.map(({ name, state }) => `${name} ${state}`);
      return { kind: step.kind, states, because: step.because };
    }
    case "collect-logs":
      return { kind: step.kind, pods: step.pods.map(({ pod }) => pod), because: step.because };
    default:
      return step;
  }
}

/** Describes a fault; rethrows any other error, which is a defect. */
function textOf(error: unknown): string {
  const fault = faultOf(error);
  if (fault === undefined) throw error;
  return describeFault(fault);
}
