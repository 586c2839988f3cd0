import { describeFault, findFault, throwFault } from "@muster/faults";
import { toKubeFault } from "@muster/kube";
import { buildJob } from "./domain/build-job.ts";
import type { UserAction, JobShape } from "./domain/plan-jobs.ts";
import { CALL_TIMEOUT_MS, retryUntilAnswered, pause, type UserDeps } from "./users.ts";
import { NAMESPACE } from "./job-observer.ts";
import type { World } from "./world.ts";

export type JobUserDeps = Omit<UserDeps, "world"> & { readonly world: Pick<World, "jobService" | "calls" | "jobs"> };

const JOBS = { apiVersion: "muster.dev/v1", plural: "jobs", namespace: NAMESPACE };
const RETRY_MS = 300;
/** Shorter than the time after which an unanswered call is repeated. */
const SOON_MS = 400;

/** Submits a job, and performs its user action. Retries until it gets an answer, like the command line. */
export async function runJobUser(deps: JobUserDeps, shape: JobShape): Promise<void> {
  const { startedAtMs, stop } = deps;
  await pause(startedAtMs + shape.submitAtMs - performance.now(), stop);
  const beginMs = performance.now();
  await Promise.all([submit(deps, shape), ...(shape.submitTwice ? [submit(deps, shape)] : [])]);
  if (shape.userAction === undefined) return;
  // A submission in flight would recreate a job that is deleted meanwhile. A slow submission has been repeated, and each repeat may last until the timeout.
  if (performance.now() - beginMs > SOON_MS) await pause(CALL_TIMEOUT_MS, stop);
  await performAction(deps, shape.name, shape.userAction);
}

async function submit({ world, userLog, stop }: JobUserDeps, shape: JobShape): Promise<void> {
  const { name } = shape;
  const request = { requestId: `submit-${name}`, manifestJson: JSON.stringify(buildJob(shape)) };
  const answered = await retryUntilAnswered(userLog, { work: name, request: "submission" }, stop, async () => {
    // A retry after the end of the job would recreate it.
    if (world.jobs.history().has(name)) return;
    await world.jobService.submitJob(request, { timeoutMs: CALL_TIMEOUT_MS, signal: stop });
  });
  if (answered) userLog.acknowledged.add(name);
}

async function performAction(
  deps: JobUserDeps,
  name: string,
  { kind, phase, afterMs, forMs }: UserAction,
): Promise<void> {
  const { world, milestones, userLog, stop } = deps;
  await milestones.reached(name, phase, stop).catch(() => undefined);
  await pause(afterMs, stop);
  switch (kind) {
    case "cancel": {
      const request = { requestId: `cancel-${name}`, key: { kind: "Job", name } };
      const options = { timeoutMs: CALL_TIMEOUT_MS, signal: stop };
      await retryUntilAnswered(userLog, { work: name, request: "cancellation" }, stop, async () => {
        if (!world.jobs.exists(name)) return;
        try {
          await world.jobService.cancelJob(request, options);
        } catch (error) {
          if (findFault(error)?.code !== "not_found") throw error;
          // An attempt whose answer was lost may have cancelled the job, and it may be deleted since. The next attempt checks that.
          throwFault({ code: "unavailable", dependency: `job ${name}`, retryAfterMs: 0 }, { cause: error });
        }
      });
      return;
    }
    case "delete":
      return change(deps, name, "deletion", () => world.calls.delete(JOBS, name, { signal: stop }));
    case "suspend":
      await suspend(deps, name, true);
      await pause(forMs, stop);
      return suspend(deps, name, false);
  }
}

function suspend(deps: JobUserDeps, name: string, isSuspended: boolean): Promise<void> {
  const body = { spec: { runPolicy: { suspend: isSuspended } } };
  return change(deps, name, isSuspended ? "suspension" : "resumption", async () => {
    await deps.world.calls.patch(JOBS, name, { kind: "merge", body }, { signal: deps.stop });
  });
}

/** Changes the job at the API server, like kubectl, and retries while it is unreachable. A deleted job needs no change. */
async function change(
  { world, userLog, stop }: JobUserDeps,
  work: string,
  verb: string,
  call: () => Promise<void>,
): Promise<void> {
  const note = (text: string): void => void userLog.entries.push({ work, atMs: Date.now(), text: `${verb} ${text}` });
  note("is sent");
  while (!stop.aborted) {
    try {
      await call();
      note("is done");
      return;
    } catch (error) {
      const fault = toKubeFault(error);
      if (fault === undefined) throw error;
      note(`failed: ${describeFault(fault)}`);
      // The answer is final only if the observer also finds no job.
      if (fault.code === "not_found" && !world.jobs.exists(work)) return;
      if (fault.code === "invalid_request") {
        userLog.refused.set(work, `${verb}: ${describeFault(fault)}`);
        return;
      }
      await pause(RETRY_MS, stop);
    }
  }
}
