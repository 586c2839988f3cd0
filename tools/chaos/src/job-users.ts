import { describeFault, faultOf, throwFault } from "@muster/faults";
import { kubeFault } from "@muster/kube";
import { buildJob } from "./domain/build-job.ts";
import type { Deed, JobShape } from "./domain/plan-jobs.ts";
import { CALL_TIMEOUT_MS, insist, pause, type UserDeps } from "./users.ts";
import { NAMESPACE } from "./job-observer.ts";
import type { World } from "./world.ts";

export type JobUserDeps = Omit<UserDeps, "world"> & { readonly world: Pick<World, "jobService" | "calls" | "jobs"> };

const JOBS = { apiVersion: "muster.dev/v1", plural: "jobs", namespace: NAMESPACE };
const AGAIN_MS = 300;
/** Sooner than any call is repeated that has no answer yet. */
const SOON_MS = 400;

/** Submits a job, and does to it what its shape says. Asks again until it is answered, as the command line does. */
export async function beJobUser(deps: JobUserDeps, shape: JobShape): Promise<void> {
  const { startedAtMs, stop } = deps;
  await pause(startedAtMs + shape.submitAtMs - performance.now(), stop);
  const beginMs = performance.now();
  await Promise.all([submit(deps, shape), ...(shape.submitTwice ? [submit(deps, shape)] : [])]);
  if (shape.deed === undefined) return;
  // Not before: a request that is still under way would make a job again that is deleted meanwhile. One that was not answered soon has been repeated, and each of them lives as
  // long as the call has time.
  if (performance.now() - beginMs > SOON_MS) await pause(CALL_TIMEOUT_MS, stop);
  await doDeed(deps, shape.name, shape.deed);
}

async function submit({ world, diary, stop }: JobUserDeps, shape: JobShape): Promise<void> {
  const { name } = shape;
  const request = { requestId: `submit-${name}`, manifestJson: JSON.stringify(buildJob(shape)) };
  const answered = await insist(diary, { work: name, what: "submission" }, stop, async () => {
    // It would be made again after its end: who has seen it does not ask again.
    if (world.jobs.ever().has(name)) return;
    await world.jobService.submitJob(request, { timeoutMs: CALL_TIMEOUT_MS, signal: stop });
  });
  if (answered) diary.acknowledged.add(name);
}

async function doDeed(deps: JobUserDeps, name: string, { do: does, phase, afterMs, forMs }: Deed): Promise<void> {
  const { world, milestones, diary, stop } = deps;
  await milestones.reached(name, phase, stop).catch(() => undefined);
  await pause(afterMs, stop);
  switch (does) {
    case "cancel": {
      const request = { requestId: `cancel-${name}`, key: { kind: "Job", name } };
      const options = { timeoutMs: CALL_TIMEOUT_MS, signal: stop };
      await insist(diary, { work: name, what: "cancellation" }, stop, async () => {
        if (!world.jobs.isThere(name)) return;
        try {
          await world.jobService.cancelJob(request, options);
        } catch (error) {
          if (faultOf(error)?.code !== "not_found") throw error;
          // Cancelled by an attempt whose answer was lost, it may have gone since: then the next look says so.
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

/** With kubectl, as it were: at the API server itself, again while that is away. A job that is gone by then needs no change. */
async function change(
  { world, diary, stop }: JobUserDeps,
  work: string,
  what: string,
  call: () => Promise<void>,
): Promise<void> {
  const note = (text: string): void => void diary.entries.push({ work, atMs: Date.now(), text: `${what} ${text}` });
  note("is sent");
  while (!stop.aborted) {
    try {
      await call();
      note("is done");
      return;
    } catch (error) {
      const fault = kubeFault(error);
      if (fault === undefined) throw error;
      note(`failed: ${describeFault(fault)}`);
      // Believed when the observer agrees.
      if (fault.code === "not_found" && !world.jobs.isThere(work)) return;
      if (fault.code === "invalid_request") {
        diary.refused.set(work, `${what}: ${describeFault(fault)}`);
        return;
      }
      await pause(AGAIN_MS, stop);
    }
  }
}
