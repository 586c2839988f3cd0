import { findFault } from "@muster/faults";
import { computeBackoffMs, takeTurns, type TakeTurn } from "@muster/backoff";
import { runInStepSpan } from "./pass-trace.ts";
import type { CreateOutcome } from "./adapters/pods.ts";
import type { FarmRecords } from "./adapters/records.ts";
import type { World } from "./adapters/views.ts";
import type { PodAnswer } from "./domain/plan-answers.ts";
import type { PodAction, PlacementRestarts } from "./domain/plan-pods.ts";
import type { OwnedPod } from "./domain/plan-sweep.ts";
import { buildPodName, type ReplicaSet } from "./domain/replica-set.ts";
import type { SetPod, SetSnapshot } from "./domain/set-snapshot.ts";
import { makeSharedReads } from "./shared-reads.ts";

/** The dependencies of the steps that make pods match the record. */
export type PodDeps = {
  readonly now: () => number;
  readonly sets: Pick<FarmRecords<ReplicaSet>, "get">;
  readonly world: Pick<World, "podsOf" | "occupied">;
  readonly pods: {
    create(set: ReplicaSet, place: { readonly node: string; readonly ordinal: number }): Promise<CreateOutcome>;
    confirm(pod: string, uid: string): Promise<void>;
    delete(pod: string, uid: string, force: boolean): Promise<void>;
    abandon(pod: string, uid: string): Promise<void>;
    /** Reads the existing pods from the API server instead of a cache. */
    list(set: ReplicaSet): Promise<readonly OwnedPod[]>;
  };
  readonly report: {
    planned(set: string, what: string, because: string): void;
    failed(set: string, what: string, error: unknown): void;
  };
};

/** A farm's memory of the pods of a set that it owns. */
export type PodsOwned = {
  readonly name: string;
  readonly fence: number;
  readonly isHeld: () => boolean;
  readonly restarts: Map<number, PlacementRestarts & { readonly readySinceMs?: number }>;
  /** Own creations, confirmations and deletions that the watcher has not published yet. */
  readonly made: Map<string, { readonly uid: string; readonly node: string; readonly atMs: number }>;
  readonly confirmed: Set<string>;
  readonly deleted: Set<string>;
  /** Steps in flight by pod name, and failed steps until `finishSteps` has returned them. */
  readonly steps: Map<string, Promise<Outcome>>;
  /** The results of the steps that finished last. */
  answers: readonly PodAnswer[];
  readonly turns: TakeTurn;
  /** Reads the record; called after the step. */
  readonly reread: () => ReturnType<FarmRecords<ReplicaSet>["get"]>;
};

/** The results of the started steps. */
type Finished = { readonly lost: boolean; readonly failed: boolean; readonly atMs: number };

type Outcome = { readonly kind: "done" | "lost" } | { readonly kind: "failed"; readonly error: unknown } | PodAnswer;

const DONE = { kind: "done" } as const;
const MAX_CONCURRENT_STEPS = 32;
/** Maximum time until the watcher publishes a pod. After it, the farm reads from the API server whether the pod exists. */
const MADE_TRUST_MS = 10_000;
/** As `MADE_TRUST_MS`, for a pod that was deleted before the watcher published it. */
const DELETED_TRUST_MS = 1000;
const RESTART = { firstMs: 1000, maxMs: 300_000 };
/** A pod that was ready for this long resets the restart back-off. */
const RESTART_FORGET_MS = 600_000;

/** Returns an empty memory of pods. */
export function makePodsOwned(
  { sets }: Pick<PodDeps, "sets">,
  set: Pick<PodsOwned, "name" | "fence" | "isHeld">,
): PodsOwned {
  return {
    ...set,
    restarts: new Map(),
    made: new Map(),
    confirmed: new Set(),
    deleted: new Set(),
    steps: new Map(),
    answers: [],
    turns: takeTurns(MAX_CONCURRENT_STEPS),
    reread: makeSharedReads(() => sets.get(set.name)),
  };
}

/** Forgets own pods that neither the watcher nor the API server has. */
export async function forgetGone(
  { world, pods, now, report }: Pick<PodDeps, "world" | "pods" | "now" | "report">,
  owned: PodsOwned,
  set: ReplicaSet,
): Promise<void> {
  const published = world.podsOf(set.name);
  for (const name of owned.made.keys()) if (published.has(name)) owned.made.delete(name);
  const due = [...owned.made].filter(([, made]) => dueAtMs(owned, made) <= now());
  if (due.length === 0) return;
  try {
    const live = new Set((await pods.list(set)).map(({ uid }) => uid));
    for (const [name, made] of due) {
      if (live.has(made.uid)) owned.made.set(name, { ...made, atMs: now() });
      else owned.made.delete(name);
    }
  } catch (error) {
    if (findFault(error) === undefined) throw error;
    report.failed(owned.name, "list-pods", error);
  }
}

/** Returns when `forgetGone` checks the next pod; Infinity: no pod to check. */
export function nextForgetAtMs(owned: PodsOwned): number {
  return Math.min(...[...owned.made.values()].map((made) => dueAtMs(owned, made)));
}

function dueAtMs({ deleted }: PodsOwned, { uid, atMs }: { readonly uid: string; readonly atMs: number }): number {
  return atMs + (deleted.has(uid) ? DELETED_TRUST_MS : MADE_TRUST_MS);
}

/** Returns the published pods, with own changes that the watcher does not show yet. */
export function listPodsOfSet(
  { world }: Pick<PodDeps, "world">,
  { made, deleted }: PodsOwned,
  set: ReplicaSet,
): ReadonlyMap<string, SetPod> {
  const pods = new Map(world.podsOf(set.name));
  for (const [name, { uid, atMs }] of made) {
    if (!pods.has(name)) pods.set(name, { name, uid, node: "", health: "UNKNOWN", sinceMs: atMs, deleting: false });
  }
  const there = new Set([...pods.values()].map(({ uid }) => uid));
  for (const uid of deleted) if (!there.has(uid)) deleted.delete(uid);
  for (const [name, pod] of pods) if (deleted.has(pod.uid)) pods.set(name, { ...pod, deleting: true });
  return pods;
}

/**
 * Returns nodes with a live pod of this pod id, by the pod's name. Includes own pods that the watcher does not show yet, which `forgetGone` keeps in `made`.
 */
export function findOccupiedNodes(
  { world }: Pick<PodDeps, "world">,
  { made }: Pick<PodsOwned, "made">,
  { spec }: Pick<ReplicaSet, "spec">,
): ReadonlyMap<string, string> {
  const unseen = [...made].map(([pod, { node }]): [string, string] => [node, pod]);
  return new Map([...unseen, ...world.occupied(spec.podId)]);
}

export function beginSteps(deps: PodDeps, owned: PodsOwned, snapshot: SetSnapshot, steps: readonly PodAction[]): void {
  for (const step of steps) {
    const outcome = owned.turns(() => tryStep(deps, owned, snapshot, step));
    owned.steps.set(step.pod, outcome);
    void outcome.then(({ kind: is }) => is === "done" && owned.steps.delete(step.pod));
  }
}

/** Waits until no step is in flight, and returns the results. The API server's answers change the plan of the next round. Rethrows a defect. */
export async function finishSteps({ now }: Pick<PodDeps, "now">, owned: PodsOwned): Promise<Finished> {
  const outcomes = await Promise.all(owned.steps.values());
  owned.steps.clear();
  for (const outcome of outcomes) {
    if (outcome.kind === "failed" && findFault(outcome.error) === undefined) throw outcome.error;
  }
  owned.answers = outcomes.filter((outcome) => outcome.kind === "name-taken" || outcome.kind === "refused");
  const nowMs = now();
  const pausesEndAtMs = [...owned.restarts.values()]
    .map(({ notBeforeMs }) => notBeforeMs)
    .filter((atMs) => atMs > nowMs);
  return {
    lost: outcomes.some(({ kind: is }) => is === "lost"),
    failed: outcomes.some(({ kind: is }) => is === "failed"),
    atMs: Math.min(...pausesEndAtMs),
  };
}

async function tryStep(deps: PodDeps, owned: PodsOwned, snapshot: SetSnapshot, step: PodAction): Promise<Outcome> {
  if (!owned.isHeld()) return { kind: "lost" };
  deps.report.planned(owned.name, step.kind, step.because);
  try {
    const traced = { name: `${step.kind} pod`, set: owned.name, because: step.because };
    return await runInStepSpan(traced, () => act(deps, owned, snapshot, step));
  } catch (error) {
    if (findFault(error) !== undefined) deps.report.failed(owned.name, step.kind, error);
    return { kind: "failed", error };
  }
}

async function act(deps: PodDeps, owned: PodsOwned, snapshot: SetSnapshot, step: PodAction): Promise<Outcome> {
  switch (step.kind) {
    case "create":
      return create(deps, owned, snapshot, step);
    case "confirm":
      await confirm(deps, owned, step, snapshot.pods.get(step.pod)?.uid ?? "");
      return DONE;
    case "delete":
      if (step.because === "ended") recordRestart(owned, snapshot, step.pod);
      await deps.pods.delete(step.pod, step.uid, false);
      owned.deleted.add(step.uid);
      return DONE;
    case "abandon":
      await deps.pods.abandon(step.pod, step.uid);
      return DONE;
  }
}

async function create(
  deps: PodDeps,
  owned: PodsOwned,
  { set }: SetSnapshot,
  step: Extract<PodAction, { kind: "create" }>,
): Promise<Outcome> {
  const { ordinal } = step;
  const made = await deps.pods.create(set, step);
  switch (made.kind) {
    case "made":
      owned.made.set(step.pod, { uid: made.uid, node: step.node, atMs: deps.now() });
      if (!made.confirmed) await confirm(deps, owned, step, made.uid);
      return DONE;
    case "name-taken":
      return { kind: "name-taken", ordinal };
    case "refused":
      pauseFor(owned, ordinal, deps.now());
      return { kind: "refused", ordinal, message: made.message };
  }
}

/** Rereads the record once the pod exists, so that a later owner of the set finds the pod. A pod without a placement never runs, and is deleted. */
async function confirm(
  deps: PodDeps,
  owned: PodsOwned,
  { pod, ordinal }: { readonly pod: string; readonly ordinal: number },
  uid: string,
): Promise<void> {
  const found = await owned.reread();
  const record = found !== undefined && "record" in found ? found.record : undefined;
  if (record?.fence !== owned.fence || !record.placements.some((each) => each.ordinal === ordinal)) return;
  await deps.pods.confirm(pod, uid);
  owned.confirmed.add(uid);
}

function recordRestart(owned: PodsOwned, { set, nowMs }: SetSnapshot, pod: string): void {
  const place = set.placements.find(({ ordinal }) => buildPodName(set.name, ordinal) === pod);
  if (place !== undefined) pauseFor(owned, place.ordinal, nowMs);
}

function pauseFor({ restarts }: PodsOwned, ordinal: number, nowMs: number): void {
  const times = (restarts.get(ordinal)?.times ?? 0) + 1;
  // One farm creates all pods of a set, so the pause needs no jitter.
  restarts.set(ordinal, { times, notBeforeMs: nowMs + computeBackoffMs(times, RESTART, () => 1) });
}

/** Forgets the restarts of removed placements, and of placements whose pods have been ready for long. */
export function forgetRestarts(
  { restarts }: PodsOwned,
  { set, pods, nowMs }: Pick<SetSnapshot, "set" | "pods" | "nowMs">,
): void {
  const ordinals = new Set(set.placements.map(({ ordinal }) => ordinal));
  for (const [ordinal, { readySinceMs, ...restart }] of restarts) {
    const isReady = pods.get(buildPodName(set.name, ordinal))?.health === "READY";
    if (!ordinals.has(ordinal) || (isReady && nowMs - (readySinceMs ?? nowMs) > RESTART_FORGET_MS))
      restarts.delete(ordinal);
    else restarts.set(ordinal, isReady ? { ...restart, readySinceMs: readySinceMs ?? nowMs } : restart);
  }
}
