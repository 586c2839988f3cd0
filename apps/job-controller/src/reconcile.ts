import { forEachSome } from "@muster/backoff";
import {
  makeReconciler,
  type ControllerParts,
  type Reconcile,
  type ReconcileResult,
  type PassRound,
} from "@muster/controller";
import { findFault } from "@muster/faults";
import { decideWrite, type WriteTime } from "./domain/decide-write.ts";
import { recordSilence } from "./domain/record-silence.ts";
import { planJob } from "./domain/plan-job.ts";
import type { JobPlan, JobStep } from "./domain/plan-steps.ts";
import type { JobStatus } from "./domain/job-status.ts";
import type { JobPolicy, Snapshot } from "./domain/snapshot.ts";

/** The observed state that a round plans from. */
export type ObservedJob = {
  readonly snapshot: Snapshot;
  /** Errors from claims and releases of members: the pass fails after it has tried every other step. */
  readonly errors: readonly unknown[];
  /** Milliseconds since this process last wrote the status of the job; Infinity if it never did. */
  readonly sinceWriteMs: number;
  /** Milliseconds for which more jobs than workers have waited; undefined if fewer wait. */
  readonly busyForMs: number | undefined;
};

/** The dependencies of passes over jobs. `Seen` adds the objects behind a snapshot. `span` belongs to a round that changes something. */
export type PassDeps<Seen extends ObservedJob> = Pick<ControllerParts<Seen, JobPlan>, "observe" | "span"> & {
  readonly act: (seen: Seen, step: JobStep, signal: AbortSignal) => Promise<void>;
  /** Rejects with a conflict if another client has written since. `gone` means that the job was deleted, and no step remains. */
  readonly writeStatus: (seen: Seen, status: JobStatus, signal: AbortSignal) => Promise<"written" | "gone">;
  /** Called after the status records the ends of the observed pods, as far as this round can record them. */
  readonly recorded: (seen: Seen, status: JobStatus) => void;
  /** Returns milliseconds to wait for another version if the API server has replaced the observed one; undefined otherwise. */
  readonly staleForMs: (seen: Seen) => number | undefined;
  readonly planned: (seen: Seen, plan: JobPlan) => void;
  /** Called for each step that failed, unless the pass was stopped. */
  readonly failed: (seen: Seen, step: JobStep, error: unknown) => void;
  /** Schedules a pass after `ms`, even if this one fails. */
  readonly wakeAfter: (key: string, ms: number) => void;
};

type PassPolicy = JobPolicy & {
  readonly statusEveryMs: number;
  /** Nothing is postponed after the workers have been busy for this time. */
  readonly maxPostponeMs: number;
};

/** A grant often follows immediately, and the same pass creates the pods. A preparation without effect must not block the status write. */
const MAX_PREPARING_ROUNDS = 3;
/** Concurrent calls for one job that do not depend on each other. */
const MAX_CONCURRENT = 16;
const POSTPONE_MS = 2000;
/** The queue retries a failed pass; a deadline never retries it more often than this. */
const MIN_FAILED_WAKE_MS = 1000;

type PassPlan = JobPlan & {
  readonly write: WriteTime;
  /** True if the plan contains only the urgent steps. */
  readonly isPostponed: boolean;
  /** True if some steps remain for a later round. */
  readonly leavesSteps: boolean;
};

/**
 * Makes passes over jobs: observe, plan, act. A round writes the parts of the status on which steps rely before the steps, and the rest after them. A round
 * tries every step and keeps the deadline of the job. Then it rejects with the error of the failed step, or with an AggregateError of all errors.
 */
export function makeReconcile<Seen extends ObservedJob>(deps: PassDeps<Seen>, policy: PassPolicy): Reconcile {
  return makeReconciler<Seen, PassPlan>({
    tracer: "job-controller",
    observe: deps.observe,
    plan: (seen) => planPass(seen, policy),
    act: (seen, plan, round) => carryOut(deps, policy, { seen, plan, round }),
    span: (seen, plan) => (isIdle(plan) ? undefined : deps.span(seen, plan)),
  });
}

function planPass({ snapshot, sinceWriteMs, busyForMs = Infinity }: ObservedJob, policy: PassPolicy): PassPlan {
  const plan = planJob(snapshot, policy);
  const write = decideWrite(snapshot.status, plan.status, sinceWriteMs, policy.statusEveryMs);
  const isPostponed = busyForMs < policy.maxPostponeMs && isNotStarted(snapshot);
  const steps = isPostponed ? plan.steps.filter(isUrgent) : plan.steps;
  return { ...plan, steps, write, isPostponed, leavesSteps: steps.length < plan.steps.length };
}

function isIdle({ steps, write }: PassPlan): boolean {
  return steps.length === 0 && (write === "never" || write === "later");
}

type PlannedRound<Seen> = { readonly seen: Seen; readonly plan: PassPlan; readonly round: PassRound };

async function carryOut<Seen extends ObservedJob>(
  deps: PassDeps<Seen>,
  policy: PassPolicy,
  { seen, plan, round }: PlannedRound<Seen>,
): Promise<ReconcileResult | "again"> {
  const { status, steps, write, isPostponed } = plan;
  deps.planned(seen, plan);
  if (write === "first" && (await deps.writeStatus(seen, status, round.signal)) === "gone") return {};
  // A later write never contains counts and completed indexes.
  deps.recorded(seen, status);
  const failures = await actAll(deps, { seen, plan, round });
  const staleForMs = deps.staleForMs(seen);
  if (staleForMs !== undefined) return { requeueAfterMs: staleForMs };
  const onlyPrepares = steps.length > 0 && !plan.leavesSteps && steps.every(isPreparationStep);
  if (failures.length === 0 && onlyPrepares && round.number < MAX_PREPARING_ROUNDS && write !== "first") return "again";
  if (failures.length === 0 && isPostponed) return { requeueAfterMs: POSTPONE_MS };
  // The status reports the observed state, whichever steps have failed.
  if (write !== "first") {
    const reported = failures.some(isLedgerSilent) ? recordSilence(status, seen.snapshot.nowMs) : status;
    const isNews = write === "after" || reported !== status;
    if (isNews && (await deps.writeStatus(seen, reported, round.signal)) === "gone") return {};
  }
  const next = earliest(plan.recheckInMs, write === "later" ? policy.statusEveryMs : undefined);
  const errors = [...seen.errors, ...failures.map(({ error }) => error)];
  if (errors.length === 0) return next;
  // A deadline does not wait for a step that always fails.
  if (next.requeueAfterMs !== undefined) deps.wakeAfter(round.key, Math.max(MIN_FAILED_WAKE_MS, next.requeueAfterMs));
  throw combineErrors(errors, failures);
}

type Failure = { readonly step: JobStep; readonly error: unknown };

/** Whether the ledger did not answer; a refusal is an answer. */
function isLedgerSilent({ step, error }: Failure): boolean {
  const code = findFault(error)?.code;
  return step.kind === "reserve" && (code === "unavailable" || code === "deadline_exceeded");
}

function combineErrors(errors: readonly unknown[], failures: readonly Failure[]): unknown {
  if (errors.length === 1) return errors[0];
  const steps = failures.map(({ step }) => step.kind).join(", ");
  return new AggregateError(errors, `${errors.length} failures${steps === "" ? "" : `, of these steps: ${steps}`}`);
}

/** No other event wakes a job for the effects of these steps. */
function isPreparationStep({ kind }: JobStep): boolean {
  return kind === "reserve" || kind === "accept-preemption" || kind === "create-companions";
}

/** Whether the job has not started. Under load, its budgets and status writes wait for the machines and pods of other jobs. */
function isNotStarted({ status }: Snapshot): boolean {
  return status.completionMs === undefined && status.startMs === undefined;
}

function isUrgent(step: JobStep): boolean {
  return step.kind !== "sync-budget" && step.kind !== "delete-budget";
}

/** Tries every step: a failed creation of one service does not prevent later steps. */
async function actAll<Seen extends ObservedJob>(
  deps: PassDeps<Seen>,
  { seen, plan, round: { signal } }: PlannedRound<Seen>,
): Promise<readonly Failure[]> {
  const failures: Failure[] = [];
  const { steps } = plan;
  const act = (step: JobStep): Promise<void> => deps.act(seen, step, signal);
  const failed = (step: JobStep, error: unknown): void => {
    if (!signal.aborted) deps.failed(seen, step, error);
    failures.push({ step, error });
  };
  // Deletions and services do not depend on each other, and may be many.
  await forEachSome(steps.filter(isDeletion), MAX_CONCURRENT, act, failed);
  const ofServices = steps.filter(isOfService);
  for (const step of steps) {
    if (step === ofServices[0]) await forEachSome(ofServices, MAX_CONCURRENT, act, failed);
    if (isDeletion(step) || isOfService(step)) continue;
    const before = failures.length;
    await act(step).catch((error: unknown) => failed(step, error));
    // The rest of the plan is as outdated as this step.
    if (failures.length > before && deps.staleForMs(seen) !== undefined) break;
    // Pods need these objects: without them they would start incomplete, or not be placed.
    if (failures.length > before && (step.kind === "create-companions" || step.kind === "sync-group")) break;
  }
  return failures;
}

function isDeletion(step: JobStep): boolean {
  return step.kind === "delete-pod";
}

function isOfService(step: JobStep): boolean {
  return step.kind === "create-service" || step.kind === "delete-service";
}

function earliest(...times: readonly (number | undefined)[]): ReconcileResult {
  const next = Math.min(...times.map((ms) => ms ?? Infinity));
  return Number.isFinite(next) ? { requeueAfterMs: next } : {};
}
