import { decideWrite } from "./domain/decide-write.ts";
import { planJob } from "./domain/plan-job.ts";
import type { JobPlan, JobStep } from "./domain/plan-steps.ts";
import type { JobStatus } from "./domain/job-status.ts";
import type { JobPolicy, Snapshot } from "./domain/snapshot.ts";

/** What one pass over one job needs. `Seen` is whatever stands behind a snapshot. */
export type PassDeps<Seen extends { readonly snapshot: Snapshot }> = {
  /** The job as it is now; undefined when there is none. */
  readonly observe: () => Promise<Seen | undefined>;
  readonly act: (seen: Seen, step: JobStep) => Promise<void>;
  /** Rejects with a conflict when somebody else has written since. `gone`: there is no such job any more, and nothing is left to do for it. */
  readonly writeStatus: (seen: Seen, status: JobStatus) => Promise<"written" | "gone">;
  readonly planned: (seen: Seen, plan: JobPlan) => void;
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
/** What was postponed is looked at again after this. */
const POSTPONE_MS = 2000;

/**
 * One pass over a job: observe, decide, act. What steps rely on is written before them, and what only tells of them after them: pods do not wait for words.
 * Returns when to look again. Idempotent: a pass that ends anywhere is made good by the next one.
 */
export async function reconcile<Seen extends { readonly snapshot: Snapshot }>(
  deps: PassDeps<Seen>,
  policy: PassPolicy,
): Promise<{ readonly requeueAfterMs?: number }> {
  for (let round = 1; ; round += 1) {
    const seen = await deps.observe();
    if (seen === undefined) return {};
    const plan = planJob(seen.snapshot, policy);
    deps.planned(seen, plan);
    const onlyAsks = plan.steps.length > 0 && plan.steps.every((step) => step.do === "reserve");
    const write = decideWrite(seen.snapshot.status, plan.status, deps.sinceWriteMs(seen), policy.statusEveryMs);
    if (write === "first" && (await deps.writeStatus(seen, plan.status)) === "gone") return {};
    if (onlyAsks && round < ROUNDS_MOST && write !== "first") {
      for (const step of plan.steps) await deps.act(seen, step);
      continue;
    }
    const isPostponed = (deps.busyForMs() ?? Infinity) < policy.postponeMostMs && hasJustBegun(seen.snapshot);
    const errors = await actAll(deps, seen, isPostponed ? plan.steps.filter(isUrgent) : plan.steps);
    if (isPostponed && errors.length === 0) return { requeueAfterMs: POSTPONE_MS };
    // It tells what was seen, and that is so whatever has become of the steps.
    if (write === "after" && (await deps.writeStatus(seen, plan.status)) === "gone") return {};
    if (errors.length > 0) throw errors[0];
    return lookAgain(plan.lookAgainInMs, write === "later" ? policy.statusEveryMs : undefined);
  }
}

/** Machines and pods first: while many jobs wait for theirs, what guards or tells of a gang of which nobody was told that it has begun waits, too, and not for long. */
function hasJustBegun({ status }: Snapshot): boolean {
  return status.completionMs === undefined && status.startMs === undefined;
}

function isUrgent(step: JobStep): boolean {
  return step.do !== "sync-budget" && step.do !== "delete-budget";
}

/** Every step is tried: a service that cannot be made does not keep the others from being made. Returns what went wrong, the first error first. */
async function actAll<Seen extends { readonly snapshot: Snapshot }>(
  deps: PassDeps<Seen>,
  seen: Seen,
  steps: readonly JobStep[],
): Promise<readonly unknown[]> {
  const errors: unknown[] = [];
  // Deletions do not depend on each other, and there may be many.
  const deletions = steps.filter((step) => step.do === "delete-pod");
  const ended = await Promise.allSettled(deletions.map((step) => deps.act(seen, step)));
  for (const each of ended) if (each.status === "rejected") errors.push(each.reason);
  for (const step of steps) {
    if (step.do === "delete-pod") continue;
    try {
      await deps.act(seen, step);
    } catch (error) {
      errors.push(error);
      // What pods need is not there: they would start without it, or not be placed.
      if (step.do === "create-companions" || step.do === "sync-group") break;
    }
  }
  return errors;
}

function lookAgain(...times: readonly (number | undefined)[]): { readonly requeueAfterMs?: number } {
  const next = Math.min(...times.map((ms) => ms ?? Infinity));
  return Number.isFinite(next) ? { requeueAfterMs: next } : {};
}
