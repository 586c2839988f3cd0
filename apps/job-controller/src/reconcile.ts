import { forEachSome } from "@muster/backoff";
import { faultOf } from "@muster/faults";
import { decideWrite, type WriteTime } from "./domain/decide-write.ts";
import { noteSilence } from "./domain/note-silence.ts";
import { planJob } from "./domain/plan-job.ts";
import type { JobPlan, JobStep } from "./domain/plan-steps.ts";
import type { JobStatus } from "./domain/job-status.ts";
import type { JobPolicy, Snapshot } from "./domain/snapshot.ts";

/** What one look at a job has found. */
export type Looked = {
  readonly snapshot: Snapshot;
  /** Why members could not be claimed or let go: the pass fails, once everything else was tried. */
  readonly errors: readonly unknown[];
};

/** What one pass over one job needs. `Seen` is whatever stands behind a snapshot. */
export type PassDeps<Seen extends Looked> = {
  /** The job as it is now; undefined when there is none. */
  readonly observe: () => Promise<Seen | undefined>;
  readonly act: (seen: Seen, step: JobStep) => Promise<void>;
  /** Rejects with a conflict when somebody else has written since. `gone`: there is no such job any more, and nothing is left to do for it. */
  readonly writeStatus: (seen: Seen, status: JobStatus) => Promise<"written" | "gone">;
  /** The status has, as far as this pass could say it, what became of the pods that were seen. */
  readonly recorded: (seen: Seen, status: JobStatus) => void;
  readonly planned: (seen: Seen, plan: JobPlan) => void;
  /** Told of each step that could not be done. */
  readonly failed: (seen: Seen, step: JobStep, error: unknown) => void;
  /** Runs what changes anything; a pass that has nothing to do runs without it. */
  readonly inPass: <Result>(seen: Seen, plan: JobPlan, work: () => Promise<Result>) => Promise<Result>;
  /** Brings the next pass no later than in so many milliseconds, whatever becomes of this one. */
  readonly wakeAfter: (ms: number) => void;
  /** Milliseconds since this process last wrote this job's status; Infinity when it never did. */
  readonly sinceWriteMs: (seen: Seen) => number;
  /** Milliseconds since more jobs began to wait than are worked on; undefined when that is not so. */
  readonly busyForMs: () => number | undefined;
};

export type PassPolicy = JobPolicy & {
  readonly statusEveryMs: number;
  /** From the moment at which many jobs began to wait; later than that nothing is postponed. */
  readonly postponeMostMs: number;
};

/** A grant is often there at once, and then the pods follow in the same pass. */
const ROUNDS_MOST = 3;
/** Of the calls for one job that do not depend on each other. */
const AT_ONCE = 16;
/** What was postponed is looked at again after this. */
const POSTPONE_MS = 2000;

/** A pass that failed comes again by itself, and what is due is no reason to come more often than this. */
const FAILED_WAKE_LEAST_MS = 1000;

type Next = { readonly requeueAfterMs?: number };

/**
 * One pass over a job: observe, decide, act. What steps rely on is written before them, and what only tells of them after them: pods do not wait for words.
 * Returns when to look again. Idempotent: a pass that ends anywhere is made good by the next one. Rejects with the error of the step that failed, or with an
 * AggregateError of all of them, once everything else was tried; what is due at a time stays due then.
 */
export async function reconcile<Seen extends Looked>(deps: PassDeps<Seen>, policy: PassPolicy): Promise<Next> {
  for (let round = 1; ; round += 1) {
    const seen = await deps.observe();
    if (seen === undefined) return {};
    const plan = planJob(seen.snapshot, policy);
    deps.planned(seen, plan);
    const write = decideWrite(seen.snapshot.status, plan.status, deps.sinceWriteMs(seen), policy.statusEveryMs);
    const isIdle = plan.steps.length === 0 && (write === "never" || write === "later");
    const work = (): Promise<Next | "again"> => carryOut(deps, policy, { seen, plan, write, round });
    const next = await (isIdle ? work() : deps.inPass(seen, plan, work));
    if (next !== "again") return next;
  }
}

type Round<Seen> = {
  readonly seen: Seen;
  readonly plan: JobPlan;
  readonly write: WriteTime;
  readonly round: number;
};

async function carryOut<Seen extends Looked>(
  deps: PassDeps<Seen>,
  policy: PassPolicy,
  { seen, plan, write, round }: Round<Seen>,
): Promise<Next | "again"> {
  if (write === "first" && (await deps.writeStatus(seen, plan.status)) === "gone") return {};
  // Counts and completed indexes are never among what is written later.
  deps.recorded(seen, plan.status);
  const onlyPrepares = plan.steps.length > 0 && plan.steps.every(isPreparation);
  const isPostponed = (deps.busyForMs() ?? Infinity) < policy.postponeMostMs && hasJustBegun(seen.snapshot);
  const failures = await actAll(deps, seen, isPostponed ? plan.steps.filter(isUrgent) : plan.steps);
  if (failures.length === 0 && onlyPrepares && round < ROUNDS_MOST && write !== "first") return "again";
  if (isPostponed && failures.length === 0) return { requeueAfterMs: POSTPONE_MS };
  // It tells what was seen, and that is so whatever has become of the steps.
  if (write !== "first") {
    const told = failures.some(isOfSilence) ? noteSilence(plan.status, seen.snapshot.nowMs) : plan.status;
    const isNews = write === "after" || told !== plan.status;
    if (isNews && (await deps.writeStatus(seen, told)) === "gone") return {};
  }
  const next = lookAgain(plan.lookAgainInMs, write === "later" ? policy.statusEveryMs : undefined);
  const errors = [...seen.errors, ...failures.map(({ error }) => error)];
  if (errors.length === 0) return next;
  // A deadline does not wait for a step that always fails.
  if (next.requeueAfterMs !== undefined) deps.wakeAfter(Math.max(FAILED_WAKE_LEAST_MS, next.requeueAfterMs));
  throw asOne(errors, failures);
}

type Failure = { readonly step: JobStep; readonly error: unknown };

/** The ledger gave no answer at all; a refusal is one. */
function isOfSilence({ step, error }: Failure): boolean {
  const code = faultOf(error)?.code;
  return step.do === "reserve" && (code === "unavailable" || code === "deadline_exceeded");
}

function asOne(errors: readonly unknown[], failures: readonly Failure[]): unknown {
  if (errors.length === 1) return errors[0];
  const steps = failures.map(({ step }) => step.do).join(", ");
  return new AggregateError(errors, `${errors.length} failures${steps === "" ? "" : `, of these steps: ${steps}`}`);
}

/** Nothing wakes a job for what comes of these. */
function isPreparation({ do: what }: JobStep): boolean {
  return what === "reserve" || what === "create-companions";
}

/** Machines and pods first: while many jobs wait for theirs, what guards or tells of a gang of which nobody was told that it has begun waits, too, and not for long. */
function hasJustBegun({ status }: Snapshot): boolean {
  return status.completionMs === undefined && status.startMs === undefined;
}

function isUrgent(step: JobStep): boolean {
  return step.do !== "sync-budget" && step.do !== "delete-budget";
}

/** Every step is tried: a service that cannot be made does not keep the others from being made. Returns what went wrong. */
async function actAll<Seen extends Looked>(
  deps: PassDeps<Seen>,
  seen: Seen,
  steps: readonly JobStep[],
): Promise<readonly Failure[]> {
  const failures: Failure[] = [];
  const act = (step: JobStep): Promise<void> => deps.act(seen, step);
  const failed = (step: JobStep, error: unknown): void => {
    deps.failed(seen, step, error);
    failures.push({ step, error });
  };
  const attempt = async (step: JobStep): Promise<boolean> => {
    try {
      await act(step);
      return true;
    } catch (error) {
      failed(step, error);
      return false;
    }
  };
  // These do not depend on each other, and there may be many.
  await forEachSome(steps.filter(isDeletion), AT_ONCE, act, failed);
  const ofServices = steps.filter(isOfService);
  for (const step of steps) {
    if (step === ofServices[0]) await forEachSome(ofServices, AT_ONCE, act, failed);
    if (isDeletion(step) || isOfService(step) || (await attempt(step))) continue;
    // What pods need is not there: they would start without it, or not be placed.
    if (step.do === "create-companions" || step.do === "sync-group") break;
  }
  return failures;
}

function isDeletion(step: JobStep): boolean {
  return step.do === "delete-pod";
}

function isOfService(step: JobStep): boolean {
  return step.do === "create-service" || step.do === "delete-service";
}

function lookAgain(...times: readonly (number | undefined)[]): Next {
  const next = Math.min(...times.map((ms) => ms ?? Infinity));
  return Number.isFinite(next) ? { requeueAfterMs: next } : {};
}
