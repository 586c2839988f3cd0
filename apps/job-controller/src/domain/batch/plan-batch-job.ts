import { listRejectingNodes } from "@muster/health";
import { QUEUED_POD } from "@muster/names";
import { avoidNodes, isCrowdedOut } from "@muster/resources";
import { restrictToGrant, type RequestUnit } from "../build-units.ts";
import { isSameRequest, computePriority, computeRefusedUntilMs, type WaitingUnit } from "../plan-job-machines.ts";
import type { RestartPauses } from "../decide-restart.ts";
import type { Problem } from "../kind.ts";
import { READY_TIMEOUT, computeRequeueAtMs } from "../plan-ready-timeout.ts";
import {
  isPreempted,
  planOverduePods,
  computeForceDelayMs,
  type ForcePreempted,
  type PreemptedUnit,
} from "../plan-preemption.ts";
import { QUEUE_UNKNOWN } from "@muster/ledger-client/choose-queue";
import { canHoldRequests } from "../requests.ts";
import type { JobPolicy, UnitSeen } from "../snapshot.ts";
import {
  countPods,
  buildExtraId,
  buildGangId,
  parsePlaceNumber,
  buildPlaceName,
  findPlaceSet,
  type BatchSnapshot,
  type PodNeed,
  type PodSet,
} from "./batch-job.ts";
import { beginStart, decideStart, type LateStart } from "./decide-start.ts";
import { findPlaces, listRunningPods, type MisplacedPod, type PodPlace, type Placement } from "./find-places.ts";
import type { StartProgress } from "./start-progress.ts";

/** Why admitted work is suspended, and requests its machines again. */
export type RequeueReason = "machine-lost" | "needs-changed" | "preempted" | "ready-timeout";

export type BatchStep =
  /** A pod cannot be suspended, and is deleted instead. `late` is recorded with the suspension. */
  | { readonly kind: "suspend"; readonly because: "not-admitted" | RequeueReason; readonly late?: LateStart }
  | { readonly kind: "record-start"; readonly start: StartProgress; readonly because: "ready" | "released" }
  /** Removes the start time, because the template cannot be changed with it before Kubernetes 1.36. */
  | { readonly kind: "reset-start"; readonly because: "not-gated" | "label-removed" }
  | { readonly kind: "gate"; readonly because: "not-gated" }
  | { readonly kind: "ungate"; readonly because: "label-removed" }
  | {
      readonly kind: "reserve";
      readonly unit: RequestUnit;
      readonly priority: number;
      readonly loweredFrom?: number;
      readonly because: RequestUnit["because"];
    }
  | {
      readonly kind: "release";
      readonly unitId: string;
      readonly because: RequeueReason | "queue-unknown" | "finished" | "label-removed" | "surplus";
    }
  /** Reports to the ledger that the Job is leaving its machines, and later that it has left them. */
  | { readonly kind: "accept-preemption" | "requeue"; readonly unitId: string; readonly because: "preempted" }
  /** `nodes` are the granted nodes. */
  | {
      readonly kind: "resume";
      readonly nodes: readonly string[];
      readonly start: StartProgress;
      readonly because: "admitted" | "no-pods";
    }
  | {
      readonly kind: "place-pod";
      readonly pod: string;
      readonly uid: string;
      readonly component: string;
      readonly node: string;
      readonly isShared: boolean;
      /** Set if the pod itself is the work. */
      readonly start?: StartProgress;
      readonly because: "granted";
    }
  | { readonly kind: "open-pod"; readonly pod: string; readonly uid: string; readonly because: "label-removed" }
  | {
      readonly kind: "delete-pod";
      readonly pod: string;
      readonly uid: string;
      readonly because: MisplacedPod["because"];
    }
  | ForcePreempted;

/** The reason why the Job waits: a stable code, and a text for people. */
export type BatchWait = { readonly code: string; readonly text: string };

export type BatchPlan = {
  readonly steps: readonly BatchStep[];
  readonly wait?: BatchWait;
  /** The pass is repeated after this time; absent if no pass is due before the next change. */
  readonly recheckInMs?: number | undefined;
};

export type BatchPolicy = RestartPauses & Pick<JobPolicy, "replacementWaitMs" | "refusedRetryMs" | "maxRecheckMs">;

/**
 * Plans the next steps of a Job of the API group `batch`, of a JobSet or of a pod. The work is suspended, and a pod gated, until the ledger has granted its
 * gang. Then each gated pod is bound to a place of the grant.
 */
export function planBatchJob(snapshot: BatchSnapshot, policy: BatchPolicy): BatchPlan {
  const { job } = snapshot;
  const preempted = snapshot.units.filter(isPreempted);
  if (job.finished || job.deleting)
    return withForce(snapshot, { steps: planReleases(snapshot, "finished"), preempted }, policy);
  if (job.queue === "") return { steps: planLeave(snapshot) };
  const gang = getGang(snapshot);
  if (preempted.length > 0) return planPreempted(snapshot, preempted, policy);
  const requeue = whyRequeue(snapshot, gang, policy);
  if (requeue !== undefined) return { steps: planRequeue(snapshot, requeue) };
  if (gang.state === "granted") return planAdmitted(snapshot, gang, policy);
  return planQueued(snapshot, gang, policy);
}

/** Plans the suspension of the Job, which requests its machines again in the next passes. */
function planRequeue(snapshot: BatchSnapshot, because: RequeueReason): readonly BatchStep[] {
  // Only the gang is released here, because the reason must last until then. Without the gang, the next pass releases the rest.
  return planEnd(snapshot, because, [{ kind: "release", unitId: buildGangId(snapshot.job), because }]);
}

/**
 * Plans the requeue of preempted machines, after the ledger knows that the Job leaves: the gang waits again at its old position, and places beside it are
 * released.
 */
function planPreempted(snapshot: BatchSnapshot, preempted: readonly PreemptedUnit[], policy: BatchPolicy): BatchPlan {
  const because = "preempted";
  const unknown = preempted.filter(({ preemption }) => !preemption.accepted);
  if (unknown.length > 0)
    return { steps: unknown.map(({ id }) => ({ kind: "accept-preemption", unitId: id, because })) };
  const gangId = buildGangId(snapshot.job);
  const last = preempted.map(({ id }): BatchStep => {
    return { kind: id === gangId ? "requeue" : "release", unitId: id, because };
  });
  return withForce(snapshot, { steps: planEnd(snapshot, because, last), preempted }, policy);
}

type Ending = { readonly steps: readonly BatchStep[]; readonly preempted: readonly PreemptedUnit[] };

/** Plans forced deletions for pods of work that leaves its machines. One preempted place ends all pods, so the earliest deadline counts. */
function withForce(snapshot: BatchSnapshot, { steps, preempted }: Ending, policy: BatchPolicy): BatchPlan {
  const running = listRunningPods(snapshot);
  const [first, ...others] = preempted.map(({ preemption }) => preemption.deadlineMs);
  if (first === undefined || running.length === 0) return { steps };
  const earliest = { deadlineMs: Math.min(first, ...others) };
  const pods = running.map(({ place, scheduled, ...pod }) => ({ ...pod, node: scheduled ? place : undefined }));
  return {
    steps: [...steps, ...planOverduePods(snapshot, pods, earliest)],
    recheckInMs: computeForceDelayMs(snapshot, [earliest], policy),
  };
}

/**
 * Suspends the Job, waits until its pods are gone, and only then takes the last steps, which release its machines. Every reason for which an admitted Job
 * leaves its machines uses this plan.
 */
function planEnd(snapshot: BatchSnapshot, because: RequeueReason, last: readonly BatchStep[]): readonly BatchStep[] {
  if (!snapshot.job.suspended) return [{ kind: "suspend", because }];
  return listRunningPods(snapshot).length > 0 ? [] : last;
}

type GrantedUnit = Extract<UnitSeen, { readonly state: "granted" }>;

function getGang({ job, units }: BatchSnapshot): UnitSeen {
  const id = buildGangId(job);
  return units.find((unit) => unit.id === id) ?? { id, state: "none" };
}

function isWaiting(unit: UnitSeen): unit is WaitingUnit {
  return unit.state === "waiting" || unit.state === "refused";
}

function whyRequeue(
  { job, nowMs, units, nodesLost, crowded = [] }: BatchSnapshot,
  gang: UnitSeen,
  { replacementWaitMs }: BatchPolicy,
): RequeueReason | undefined {
  if (gang.state !== "granted") return undefined;
  if (job.start.regrouping) return "ready-timeout";
  const isLate = units.some((unit) => unit.state === "waiting" && nowMs - unit.sinceMs >= replacementWaitMs);
  const isLost = ([component, node]: readonly [string, string]): boolean =>
    nodesLost.includes(node) || isCrowdedOut(crowded, component, node);
  if (isLate && [...gang.nodes].some(isLost)) return "machine-lost";
  return job.suspended && isGrantTooSmall(gang, job.sets) ? "needs-changed" : undefined;
}

/** Whether the Job exceeds its grant: the template of a suspended Job may be changed. */
function isGrantTooSmall({ nodes, shares }: GrantedUnit, sets: readonly PodSet[]): boolean {
  const needs = new Map(sets.map(({ name, need }) => [name, need]));
  return [...nodes.keys()].some((component) => {
    const need = needs.get(findPlaceSet(component));
    return need !== undefined && !("problems" in need) && !canHoldRequests(shares?.get(component), need.shared);
  });
}

/** Withdraws a waiting request; a granted unit is released after the removal of its last pod. */
function planReleases(
  snapshot: BatchSnapshot,
  because: Extract<BatchStep, { readonly kind: "release" }>["because"],
): BatchStep[] {
  const isBusy = listRunningPods(snapshot).length > 0;
  return snapshot.units
    .filter(({ state }) => state === "waiting" || (state === "granted" && !isBusy))
    .map(({ id }) => ({ kind: "release", unitId: id, because }));
}

/** Plans for a Job without a queue, which Muster no longer manages: no gate holds back its pods, and its machines are released while they run. */
function planLeave({ job, pods, units }: BatchSnapshot): BatchStep[] {
  const because = "label-removed";
  const releases = units
    .filter(({ state }) => state === "waiting" || state === "granted")
    .map(({ id }): BatchStep => ({ kind: "release", unitId: id, because }));
  const opened = pods
    .filter(({ gated, finished, deleting }) => gated && !finished && !deleting)
    .map(({ name, uid }): BatchStep => ({ kind: "open-pod", pod: name, uid, because }));
  const template: readonly BatchStep[] = job.gated && job.stopped ? [{ kind: "ungate", because }] : [];
  return [...releases, ...opened, ...withStartReset(job, template, because)];
}

function withStartReset(
  { started }: BatchSnapshot["job"],
  steps: readonly BatchStep[],
  because: Extract<BatchStep, { readonly kind: "reset-start" }>["because"],
): readonly BatchStep[] {
  return started && steps.length > 0 ? [{ kind: "reset-start", because }] : steps;
}

/** Suspends the Job, gates its template, and requests its machines, in this order. */
function planQueued(snapshot: BatchSnapshot, gang: UnitSeen, policy: BatchPolicy): BatchPlan {
  const { job, queue, nowMs } = snapshot;
  // The template of an admitted Job may be gated, and only the ledger knows whether the Job is admitted.
  if (gang.state === "unknown" && job.gated) return { steps: [] };
  if (!job.suspended) return { steps: countPods(job) > 0 ? [{ kind: "suspend", because: "not-admitted" }] : [] };
  if (gang.state === "unknown" || queue.kind === "unlisted") return { steps: [] };
  if (job.start.regrouping)
    return { steps: [{ kind: "record-start", start: { ...job.start, regrouping: false }, because: "released" }] };
  if (queue.kind !== "queue") return withdraw(snapshot, { code: QUEUE_UNKNOWN, text: describeQueue(queue) });
  const problems = job.sets.flatMap(({ need }) => ("problems" in need ? need.problems : []));
  if (problems.length > 0) return withdraw(snapshot, { code: "INVALID_SPEC", text: describeProblems(problems) });
  if (!job.gated) return planGate(snapshot);
  if (countPods(job) === 0) return { steps: [{ kind: "resume", nodes: [], start: job.start, because: "no-pods" }] };
  // Its former pods still run on machines that it has released or is about to release.
  if (listRunningPods(snapshot).length > 0) return { steps: [] };
  const againMs = computeRequeueAtMs(job.start, policy, nowMs);
  if (againMs !== undefined) return planPause(snapshot, againMs, policy);
  return planRequest(snapshot, gang, buildGang(snapshot, queue.name), policy);
}

/** Requests no machines after a ready timeout, and withdraws units that wait again too early: a preemption keeps its request. */
function planPause(snapshot: BatchSnapshot, againMs: number, { maxRecheckMs }: BatchPolicy): BatchPlan {
  const { nowMs, job } = snapshot;
  const times = `${job.start.readyTimeouts} time${job.start.readyTimeouts === 1 ? "" : "s"} in a row`;
  const again = `its machines are requested again at ${new Date(againMs).toISOString()}`;
  return {
    steps: planReleases(snapshot, "ready-timeout"),
    wait: { code: READY_TIMEOUT, text: `its pods were not ready in time, ${times}; ${again}` },
    recheckInMs: Math.min(againMs - nowMs, maxRecheckMs),
  };
}

function describeQueue(queue: BatchSnapshot["queue"]): string {
  return queue.kind === "unknown" ? queue.message : "no queue exists";
}

function withdraw(snapshot: BatchSnapshot, wait: BatchWait): BatchPlan {
  return { steps: planReleases(snapshot, "queue-unknown"), wait };
}

function describeProblems(problems: readonly Problem[]): string {
  return [...new Set(problems.map(({ field, reason }) => `${field}: ${reason}`))].join("; ");
}

function planGate({ job }: BatchSnapshot): BatchPlan {
  // Kubernetes counts the pods of a suspended Job until they are gone.
  if (!job.stopped) return { steps: [] };
  return { steps: withStartReset(job, [{ kind: "gate", because: "not-gated" }], "not-gated") };
}

function buildGang({ job }: BatchSnapshot, queue: string): RequestUnit {
  const needs = job.sets.flatMap(({ name, first, pods, need }) => {
    if ("problems" in need) return [];
    return Array.from({ length: pods }, (_, index) => buildNeed(need, buildPlaceName(name, first + index)));
  });
  return { id: buildGangId(job), needs, topology: job.topology, queue, graceMs: job.graceMs, because: "gang" };
}

function buildNeed({ pool, otherPools, shared, selection }: PodNeed, component: string): RequestUnit["needs"][number] {
  const accepted = { pool, ...(otherPools && { otherPools }) };
  return {
    component,
    ...accepted,
    ...(shared !== undefined && { shared }),
    ...(selection !== undefined && { selection }),
  };
}

function planRequest(snapshot: BatchSnapshot, gang: UnitSeen, unit: RequestUnit, policy: BatchPolicy): BatchPlan {
  const { queue, priority, nowMs, units } = snapshot;
  const extras = units
    .filter(({ id, state }) => id !== gang.id && (state === "waiting" || state === "granted"))
    .map(({ id }): BatchStep => ({ kind: "release", unitId: id, because: "surplus" }));
  const reserve: BatchStep = { kind: "reserve", unit, ...computePriority(queue, priority), because: unit.because };
  if (!isWaiting(gang)) return { steps: [...extras, reserve] };
  const wait = { code: gang.because.code, text: gang.because.text };
  if (gang.state === "refused") {
    const isDue = nowMs >= computeRefusedUntilMs(gang, policy);
    return { steps: [...extras, ...(isDue ? [reserve] : [])], wait };
  }
  const isSame = isSameRequest(gang, unit) && (gang.dropsConstraints === true || gang.queue === unit.queue);
  if (isSame) return { steps: extras, wait };
  return { steps: [...extras, { kind: "release", unitId: gang.id, because: "needs-changed" }], wait };
}

/** Resumes the Job, gives its pods their places, and suspends it again if they are not ready in time. */
function planAdmitted(snapshot: BatchSnapshot, gang: GrantedUnit, policy: BatchPolicy): BatchPlan {
  const { job } = snapshot;
  // The gate of a pod is removed when it is bound.
  if (job.suspended && job.kind !== QUEUED_POD) {
    if (!job.gated) return planGate(snapshot);
    const start = beginStart(snapshot);
    return { steps: [{ kind: "resume", nodes: [...gang.nodes.values()], start, because: "admitted" }] };
  }
  const started = decideStart(snapshot, gang, policy);
  if (started.kind === "late") {
    const { start, text } = started;
    return { steps: [{ kind: "suspend", because: "ready-timeout", late: { start, text } }] };
  }
  const noted: readonly BatchStep[] =
    started.kind === "ready" ? [{ kind: "record-start", start: started.start, because: "ready" }] : [];
  const steps = [...noted, ...planPlaces(snapshot, gang, policy)];
  const dueMs = (snapshot.crowded ?? []).flatMap(({ isLost, sinceMs }) =>
    isLost ? [] : [sinceMs + policy.replacementWaitMs],
  );
  for (const { untilMs } of snapshot.rejections ?? []) if (untilMs > snapshot.nowMs) dueMs.push(untilMs);
  if (started.kind === "starting") dueMs.push(started.dueMs);
  if (dueMs.length === 0) return { steps };
  return { steps, recheckInMs: Math.min(...dueMs.map((each) => each - snapshot.nowMs), policy.maxRecheckMs) };
}

/** Binds gated pods, and requests a place for each pod without a usable one. */
function planPlaces(snapshot: BatchSnapshot, gang: GrantedUnit, policy: BatchPolicy): readonly BatchStep[] {
  const placement = findPlaces(snapshot);
  const deletions = placement.misplaced.map(({ pod, because }): BatchStep => {
    return { kind: "delete-pod", pod: pod.name, uid: pod.uid, because };
  });
  const bound = placement.placed.map(({ pod, place }): BatchStep => {
    const { component, node, isShared } = place;
    const start = snapshot.job.kind === QUEUED_POD && { start: beginStart(snapshot) };
    return { kind: "place-pod", pod: pod.name, uid: pod.uid, component, node, isShared, ...start, because: "granted" };
  });
  return [...deletions, ...bound, ...planExtras(snapshot, gang, placement, policy)];
}

/** Plans places beside the gang's: replacements of lost machines, and places for an increased parallelism. */
function planExtras(
  snapshot: BatchSnapshot,
  gang: GrantedUnit,
  placement: Placement,
  policy: BatchPolicy,
): BatchStep[] {
  const extras = snapshot.units.filter(({ id }) => id !== gang.id);
  const numbers = unusedNumbers(snapshot.units);
  return snapshot.job.sets.flatMap((set) => {
    const ofSet = extras.filter((unit) =>
      listUnitPlaces(unit).some((component) => findPlaceSet(component) === set.name),
    );
    return planExtrasOfSet({ snapshot, gang, placement, policy, set, extras: ofSet, numbers });
  });
}

type ExtrasOfSet = {
  readonly snapshot: BatchSnapshot;
  readonly gang: GrantedUnit;
  readonly placement: Placement;
  readonly policy: BatchPolicy;
  readonly set: PodSet;
  /** The units of the set beside the gang. */
  readonly extras: readonly UnitSeen[];
  /** Yields numbers of places that no unit has. */
  readonly numbers: Iterator<number, never>;
};

function planExtrasOfSet({ snapshot, gang, placement, policy, set, extras, numbers }: ExtrasOfSet): BatchStep[] {
  const waiting = extras.filter(isWaiting);
  const isOfSet = ({ component, isLost }: PodPlace): boolean => findPlaceSet(component) === set.name && !isLost;
  const usable = [...placement.places.values()].filter(isOfSet).length;
  const unplaced = placement.unplaced.filter((pod) => pod.set === set.name).length;
  const wanted = Math.min(unplaced, Math.max(0, set.pods - usable));
  const surplus = [...findSurplus(extras, placement, usable - set.pods), ...waiting.slice(wanted)];
  const releases = surplus
    .filter(({ state }) => state !== "refused")
    .map(({ id }): BatchStep => ({ kind: "release", unitId: id, because: "surplus" }));
  const due = waiting
    .slice(0, wanted)
    .filter((unit) => unit.state === "refused" && snapshot.nowMs >= computeRefusedUntilMs(unit, policy))
    .flatMap(({ components }) => components);
  const missing = Math.max(0, wanted - waiting.length);
  const names = [...due, ...Array.from({ length: missing }, () => buildPlaceName(set.name, numbers.next().value))];
  return [...releases, ...names.flatMap((name) => planExtra(snapshot, gang, { placement, set, name }))];
}

/** Finds surplus granted places beside the gang's, without a pod: those on lost machines, and `tooMany` further ones. */
function findSurplus(extras: readonly UnitSeen[], placement: Placement, tooMany: number): readonly UnitSeen[] {
  const { places, occupied, placed } = placement;
  const taken = new Set([...occupied, ...placed.map(({ place }) => place.component)]);
  const unused = extras.filter((unit): unit is GrantedUnit => {
    return unit.state === "granted" && [...unit.nodes.keys()].every((component) => !taken.has(component));
  });
  const isLost = ({ nodes }: GrantedUnit): boolean =>
    [...nodes.keys()].some((each) => places.get(each)?.isLost === true);
  const usable = unused.filter((unit) => !isLost(unit));
  return [...unused.filter(isLost), ...usable.slice(0, Math.max(0, tooMany))];
}

/** Returns the names of the places that a unit has or waits for. */
function listUnitPlaces(unit: UnitSeen): readonly string[] {
  if (unit.state === "granted") return [...unit.nodes.keys()];
  return isWaiting(unit) ? unit.components : [];
}

function* unusedNumbers(units: readonly UnitSeen[]): Generator<number, never> {
  const used = new Set(units.flatMap(listUnitPlaces).map(parsePlaceNumber));
  for (let number = 0; ; number += 1) if (!used.has(number)) yield number;
}

function planExtra(
  { job, queue, priority, rejections, nowMs }: BatchSnapshot,
  gang: GrantedUnit,
  { placement, set, name }: { readonly placement: Placement; readonly set: PodSet; readonly name: string },
): BatchStep[] {
  if ("problems" in set.need) return [];
  const isLost = [...placement.places.values()].some((place) => place.isLost);
  const because = isLost ? "machine-lost" : "scaled-up";
  const need = restrictToGrant(gang, buildNeed(set.need, name));
  const needs = [
    avoidNodes(
      need,
      listRejectingNodes(rejections, (component) => findPlaceSet(component) === set.name, nowMs),
    ),
  ];
  const unit: RequestUnit = { id: buildExtraId(job, name), needs, queue: gang.queue, graceMs: job.graceMs, because };
  return [{ kind: "reserve", unit, ...computePriority(queue, priority), because }];
}
