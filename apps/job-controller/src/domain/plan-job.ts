import { countGang, buildOwnerId } from "./build-units.ts";
import { countUncounted } from "./count-uncounted.ts";
import { decideOutcome, countRestarts, type JobOutcome } from "./decide-outcome.ts";
import { decideRestart, computeGangRestartMs, type NextRestart } from "./decide-restart.ts";
import { explainRestart, describeRestartNumber } from "./explain-restart.ts";
import type { JobSpec } from "./job.ts";
import { isActive, canRun, listPods } from "./job-pods.ts";
import {
  findCondition,
  isFinished,
  isTrue,
  NEW_STATUS,
  removeCondition,
  type JobStatus,
  type RestartNumber,
} from "./job-status.ts";
import { planBudgetDeletion, planCleanUp, planServiceDeletions, type CleanUpPolicy } from "./plan-clean-up.ts";
import { recordMachines } from "./record-machines.ts";
import { recordNames } from "./record-names.ts";
import { recordProgress } from "./record-progress.ts";
import { recordTroubles } from "./record-troubles.ts";
import { findFailedMembers } from "./find-failed-members.ts";
import { planGroup, planGroupDeletions } from "./plan-group.ts";
import { planHandOver } from "./plan-hand-over.ts";
import { isGangGrantTooSmall, listMemberMachines } from "./member-machines.ts";
import {
  planJobMachines,
  planReleases,
  computeRefusedUntilMs,
  listReplacedMembers,
  computeReplacementSinceMs,
} from "./plan-job-machines.ts";
import { planPreemptedGang, planPreemptedMembers, findPreemptedGang } from "./plan-preemption.ts";
import { planDeletions, planForcedDeletions, planPods } from "./plan-pods.ts";
import { recordReadiness, computeReadyDueMs, computeRequeueAtMs, requeueUnreadyGang } from "./plan-ready-timeout.ts";
import type { JobPlan, JobStep, StopReason } from "./plan-steps.ts";
import type { JobPolicy, Snapshot, UnreadableSpec } from "./snapshot.ts";
import { recoverStatus } from "./recover-status.ts";
import { summariseReplicas } from "./summarise-replicas.ts";
import { transitionConditions, wasWrittenRecently, roundToSecond } from "./transition-conditions.ts";

const UNREADABLE: CleanUpPolicy = { cleanPodPolicy: "Running", ttlAfterFinishedMs: undefined };
const CANCELLED = { kind: "failed", reason: "Cancelled", message: "its cancellation was requested" } as const;
const WHILE_UNREADABLE =
  "pods and machines stay as they are until the spec can be read again; put right the spec or the controller's configuration, or cancel the job";

/**
 * Plans the next steps of one job: reserve every machine, create missing pods, judge ended pods, and clean up after its end. Plans no steps while the job only
 * waits. For a job that another controller runs or that is being deleted, it plans only the release of its machines.
 */
export function planJob(snapshot: Snapshot, policy: JobPolicy): JobPlan {
  const { spec, nodesLost } = snapshot;
  if (spec.managedBy !== undefined) return planHandOver(snapshot);
  const plan = planOwn({ ...snapshot, status: recoverStatus(snapshot) }, policy);
  return { ...plan, steps: [...planForcedDeletions(listPods(snapshot), nodesLost), ...plan.steps] };
}

function planOwn(snapshot: Snapshot, policy: JobPolicy): JobPlan {
  const { spec, status, job } = snapshot;
  // The garbage collector deletes the pods and services of the job.
  if (job.deleting) return { status, steps: planReleases(snapshot, "job-over"), recheckInMs: undefined };
  if (isUnreadable(spec)) return planUnreadable(snapshot, spec, policy);
  if (isFinished(status)) return planCleanUp(snapshot, settle(snapshot, spec, status), spec, policy);
  const begun = begin(snapshot, status);
  return spec.suspend && !job.cancelled
    ? planSuspended(snapshot, spec, begun)
    : planForward(snapshot, spec, begun, policy);
}

function isUnreadable(spec: Snapshot["spec"]): spec is UnreadableSpec {
  return "problems" in spec;
}

/**
 * Plans for an unreadable spec. A job that never started fails with the problems as its reason. A started job continues, because its spec was readable once,
 * and an edit or a change of the configuration may make it readable again.
 */
function planUnreadable(snapshot: Snapshot, { problems }: UnreadableSpec, policy: JobPolicy): JobPlan {
  const { nowMs, job } = snapshot;
  const problemText = problems.map(({ field, reason }) => `${field}: ${reason}`).join("; ");
  const begun = begin(snapshot, snapshot.status);
  if (!isFinished(begun) && !job.cancelled && hasStarted(snapshot)) {
    const message = `${WHILE_UNREADABLE}: ${problemText}`;
    const change = { type: "SpecUnreadable", status: "True", reason: "InvalidSpec", message } as const;
    const gang = findPreemptedGang(snapshot);
    const { status, ...plan } =
      gang === undefined
        ? { status: begun, ...planPreemptedMembers(snapshot, policy) }
        : planPreemptedGang(snapshot, begun, gang, policy);
    return { status: transitionConditions(status, change, nowMs), ...plan };
  }
  const invalid = { kind: "failed", reason: "InvalidSpec", message: `the spec is invalid: ${problemText}` } as const;
  return planCleanUp(snapshot, finish(begun, nowMs, job.cancelled ? CANCELLED : invalid), UNREADABLE, policy);
}

function hasStarted(snapshot: Snapshot): boolean {
  const { status, units } = snapshot;
  if (isTrue(status, "Preempted") || isTrue(status, "Requeued")) return true;
  return (
    status.startMs !== undefined || listPods(snapshot).length > 0 || units.some(({ state }) => state === "granted")
  );
}

function begin({ nowMs, job, spec }: Snapshot, status: JobStatus): JobStatus {
  const known = isUnreadable(spec) ? status : removeCondition(status, "SpecUnreadable");
  const seen = { ...known, observedGeneration: job.generation };
  if (findCondition(status, "Created") !== undefined) return seen;
  return transitionConditions(
    seen,
    { type: "Created", status: "True", reason: "JobCreated", message: "the job was accepted" },
    nowMs,
  );
}

/** After the end, only the counts of existing pods change. */
function settle(snapshot: Snapshot, spec: JobSpec, status: JobStatus): JobStatus {
  const now = summariseReplicas(spec, status, snapshot.replicas);
  const replicas = status.replicas.map((before) => {
    const after = now.find(({ type }) => type === before.type);
    return { ...before, active: after?.active ?? 0, ready: after?.ready ?? 0 };
  });
  return { ...status, replicas };
}

function planSuspended(snapshot: Snapshot, spec: JobSpec, begun: JobStatus): JobPlan {
  // A resumed job retries its members: earlier ends cause no pause.
  const replicas = summariseReplicas(spec, begun, snapshot.replicas).map((each) => ({ ...each, uncounted: [] }));
  const { hasBeenReady, readyTimeouts, lastReadyTimeoutMs } = NEW_STATUS;
  const fresh = { hasBeenReady, readyTimeouts, lastReadyTimeoutMs };
  const stopped = { ...begun, replicas, startMs: undefined, replaced: [], regrouping: false, ...fresh };
  const status = transitionConditions(
    removeCondition(stopped, "MachinesReserved"),
    { type: "Suspended", status: "True", reason: "JobSuspended", message: "suspend is true" },
    snapshot.nowMs,
  );
  return {
    status,
    steps: [
      ...planDeletions(listPods(snapshot).filter(isActive), "suspended"),
      ...planStop(snapshot, "suspended"),
      ...planReleases(snapshot, "suspended"),
    ],
    recheckInMs: undefined,
  };
}

function planForward(snapshot: Snapshot, spec: JobSpec, begun: JobStatus, policy: JobPolicy): JobPlan {
  const { nowMs } = snapshot;
  const summarised = { ...resume(begun, nowMs), replicas: summariseReplicas(spec, begun, snapshot.replicas) };
  const counted = countUncounted(snapshot, spec, summarised, policy);
  const outcome = snapshot.job.cancelled ? CANCELLED : decideOutcome(snapshot, spec, counted, policy);
  if (outcome.kind === "succeeded" || outcome.kind === "failed") {
    const ended = { ...counted, failedMembers: findFailedMembers(snapshot, spec, counted) };
    return planCleanUp(snapshot, finish(ended, nowMs, outcome), spec, policy);
  }
  const preempted = findPreemptedGang(snapshot);
  if (preempted !== undefined) return planPreemptedGang(snapshot, counted, preempted, policy);
  const restartMs = outcome.kind === "restarting" ? computeGangRestartMs(outcome.sinceMs, counted, policy) : Infinity;
  const attempted =
    outcome.kind === "restarting" && nowMs >= restartMs ? restartGang(spec, counted, outcome, nowMs) : counted;
  const timely = requeueUnreadyGang(snapshot, spec, recordReadiness(snapshot, spec, attempted), policy);
  const status = regroup(snapshot, { ...timely, replaced: listReplacedMembers(snapshot, spec, timely) }, policy);
  if (status.regrouping) return planRegrouping(snapshot, status);
  return planRunning(snapshot, spec, status, { policy, restartMs });
}

function planRunning(
  snapshot: Snapshot,
  spec: JobSpec,
  before: JobStatus,
  { policy, restartMs }: { readonly policy: JobPolicy; readonly restartMs: number },
): JobPlan {
  const { nowMs } = snapshot;
  const gang = snapshot.units.find(({ id }) => id === buildOwnerId(snapshot.job));
  const granted = gang?.state === "granted";
  const ready = granted && snapshot.companionsMissing.length === 0 && snapshot.companionsRefused === undefined;
  const pods = planPods(snapshot, spec, before, {
    machines: listMemberMachines(snapshot, before),
    mayCreate: ready,
    policy,
  });
  const reserved = recordNames(snapshot, recordMachines(snapshot, before, policy));
  const troubled = recordTroubles(snapshot, reserved, policy);
  const members = snapshot.replicas.flatMap(({ slots }) => slots.filter((pod) => pod !== undefined));
  const next = decideRestart({ spec, status: before, pods: members }, policy, nowMs);
  const status = pods.restarting
    ? recordNextRestart(troubled, next, policy, nowMs)
    : recordProgress(snapshot, spec, troubled);
  const deadlineMs = status.startMs === undefined ? undefined : status.startMs + (spec.activeDeadlineMs ?? Infinity);
  const waitsMs = computeReplacementSinceMs(snapshot, status);
  const leaving = planPreemptedMembers(snapshot, policy);
  const refusedMs = snapshot.units.flatMap((unit) =>
    unit.state === "refused" ? [computeRefusedUntilMs(unit, policy)] : [],
  );
  const times = [
    ...pods.dueMs,
    restartMs > nowMs ? restartMs : Infinity,
    ...refusedMs,
    ...(snapshot.crowded ?? []).flatMap(({ isLost, sinceMs }) => (isLost ? [] : [sinceMs + policy.replacementWaitMs])),
    ...(snapshot.rejections ?? []).flatMap(({ untilMs }) => (untilMs > nowMs ? [untilMs] : [])),
    deadlineMs ?? Infinity,
    nowMs + (leaving.recheckInMs ?? Infinity),
    (waitsMs ?? Infinity) + policy.replacementWaitMs,
    computeReadyDueMs(snapshot, status) ?? Infinity,
    computeRequeueAtMs(status, policy, nowMs) ?? Infinity,
  ];
  return {
    status,
    steps: [
      ...planJobMachines(snapshot, spec, status, policy),
      ...leaving.steps,
      ...planCompanions(snapshot, granted),
      ...(granted ? planGroup(snapshot, spec, status, policy) : []),
      ...pods.steps,
      ...(granted ? planServices(snapshot) : []),
      ...(granted ? planBudget(snapshot, spec, policy) : []),
    ],
    recheckInMs: earliest(times, nowMs, policy),
  };
}

function planCompanions({ companionsMissing }: Snapshot, granted: boolean): JobStep[] {
  if (!granted || companionsMissing.length === 0) return [];
  return [{ kind: "create-companions", names: companionsMissing, because: "missing" }];
}

function planServices({ services }: Snapshot): JobStep[] {
  if (!services.settled) return [];
  const { present, wanted } = services;
  return [
    ...present
      .filter((service) => !wanted.includes(service))
      .map((service): JobStep => ({ kind: "delete-service", service, because: "scaled-down" })),
    ...wanted
      .filter((service) => !present.includes(service))
      .map((service): JobStep => ({ kind: "create-service", service, because: "missing" })),
  ];
}

function planBudget({ budget }: Snapshot, spec: JobSpec, policy: JobPolicy): JobStep[] {
  if (!policy.gangScheduling) return planUnwantedBudget(budget);
  const members = spec.replicas.reduce((sum, replica) => sum + countGang(replica), 0);
  const minAvailable = Math.min(spec.minAvailable ?? members, members);
  if (budget === minAvailable) return [];
  return [{ kind: "sync-budget", minAvailable, because: budget === undefined ? "missing" : "changed" }];
}

function planUnwantedBudget(budget: Snapshot["budget"]): JobStep[] {
  return budget === undefined ? [] : [{ kind: "delete-budget", because: "not-wanted" }];
}

/** Deletes the objects beside the pods of a job that temporarily has no machines. */
function planStop(snapshot: Snapshot, because: StopReason): JobStep[] {
  return [
    ...planServiceDeletions(snapshot, because),
    ...planBudgetDeletion(snapshot, because),
    ...planGroupDeletions(snapshot, because),
  ];
}

/** Deletes all pods, then releases all machines, and only then requests machines again. */
function planRegrouping(snapshot: Snapshot, status: JobStatus): JobPlan {
  const pods = listPods(snapshot);
  const because = isTrue(status, "Requeued") && status.startMs === undefined ? "ready-timeout" : "gang-restarts";
  const gone = !pods.some(canRun) && snapshot.units.every(({ state }) => state === "none" || state === "refused");
  return {
    status: gone ? { ...status, regrouping: false, replaced: [] } : status,
    steps: [
      ...planDeletions(
        pods.filter(({ phase }) => phase !== "Succeeded"),
        because,
      ),
      ...(because === "ready-timeout" ? planStop(snapshot, because) : []),
      ...planReleases(snapshot, because),
    ],
    // No other event wakes the job for the next step.
    recheckInMs: gone ? 0 : undefined,
  };
}

function regroup(snapshot: Snapshot, status: JobStatus, policy: JobPolicy): JobStatus {
  const condition = status.regrouping ? undefined : regroupingCondition(snapshot, status, policy);
  if (condition === undefined) return status;
  return transitionConditions({ ...status, regrouping: true, attempt: status.attempt + 1 }, condition, snapshot.nowMs);
}

/** Returns the condition under which the gang releases and requests all machines again; undefined if it does not. */
function regroupingCondition(snapshot: Snapshot, status: JobStatus, policy: JobPolicy) {
  if (isGangGrantTooSmall(snapshot)) {
    const message = "its parts of machines do not hold what it requests now; all are released and requested again";
    return { type: "Restarting", status: "True", reason: "NeedsChanged", message } as const;
  }
  const sinceMs = computeReplacementSinceMs(snapshot, status);
  if (sinceMs === undefined || snapshot.nowMs - sinceMs < policy.replacementWaitMs) return undefined;
  const message = "no machine came free for one that was lost; all are released and requested again";
  return { type: "Restarting", status: "True", reason: "MachineLost", message } as const;
}

/** Every member is recreated, including completed ones, because a gang progresses as one. */
function restartGang(
  spec: JobSpec,
  status: JobStatus,
  outcome: Extract<JobOutcome, { kind: "restarting" }>,
  nowMs: number,
): JobStatus {
  const restarted = {
    ...status,
    attempt: status.attempt + 1,
    attemptsCounted: status.attemptsCounted + 1,
    replicas: status.replicas.map((replica) => ({
      ...replica,
      active: 0,
      ready: 0,
      succeeded: 0,
      failed: 0,
      completedIndexes: [],
      counted: [],
    })),
  };
  const message = `${describeRestartNumber({ number: countRestarts(restarted), limit: spec.backoffLimit })}: ${outcome.message}`;
  return transitionConditions(
    restarted,
    { type: "Restarting", status: "True", reason: "JobRestarting", message },
    nowMs,
  );
}

function resume(status: JobStatus, nowMs: number): JobStatus {
  if (!isTrue(status, "Suspended")) return status;
  return transitionConditions(
    status,
    { type: "Suspended", status: "False", reason: "JobResumed", message: "suspend is false" },
    nowMs,
  );
}

function finish(
  status: JobStatus,
  nowMs: number,
  outcome: { kind: "succeeded"; message: string } | { kind: "failed"; reason: string; message: string },
): JobStatus {
  if (isFinished(status)) return status;
  const ended = { ...status, completionMs: roundToSecond(nowMs), regrouping: false };
  const { message } = outcome;
  return outcome.kind === "succeeded"
    ? transitionConditions(ended, { type: "Succeeded", status: "True", reason: "JobSucceeded", message }, nowMs)
    : transitionConditions(ended, { type: "Failed", status: "True", reason: outcome.reason, message }, nowMs);
}

/** Notes the number and the time of the next restart. The remaining time is written at most every `explainEveryMs`. */
function recordNextRestart(
  status: JobStatus,
  next: NextRestart | undefined,
  policy: JobPolicy,
  nowMs: number,
): JobStatus {
  const before = findCondition(status, "Restarting");
  // The decision about a gang restart has already written its reason.
  if (next === undefined && before?.status === "True") return status;
  const restart = next !== undefined && next.atMs > nowMs ? restartNumber(next) : undefined;
  if (before !== undefined && isSameRestart(before.restart, restart) && wasWrittenRecently(before, nowMs, policy))
    return status;
  const message = next === undefined ? "pods that were lost are recreated" : explainRestart(next, nowMs);
  const change = { type: "Restarting", status: "True", reason: "JobRestarting", message } as const;
  return transitionConditions(status, restart === undefined ? change : { ...change, restart }, nowMs);
}

function restartNumber({ number, limit }: NextRestart): RestartNumber {
  return { number, limit: number === undefined ? undefined : limit };
}

function isSameRestart(one: RestartNumber | undefined, other: RestartNumber | undefined): boolean {
  if (one === undefined || other === undefined) return false;
  return one.number === other.number && one.limit === other.limit;
}

function earliest(timesMs: readonly number[], nowMs: number, policy: JobPolicy): number | undefined {
  const next = Math.min(...timesMs);
  return Number.isFinite(next) ? Math.min(Math.max(0, next - nowMs), policy.maxRecheckMs) : undefined;
}
