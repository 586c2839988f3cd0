import { setTimeout as sleep } from "node:timers/promises";
import { describeFault, findFault, isRetryable } from "@muster/faults";
import { buildSession } from "./domain/build-session.ts";
import { SESSION_QUEUE } from "./domain/plan-queues.ts";
import type { SessionShape } from "./domain/plan-session-shapes.ts";
import { toSpec } from "./messages.ts";
import type { Milestones } from "./milestones.ts";
import type { World } from "./world.ts";

/** The actions of the users, and their answers. */
export type UserLog = {
  readonly acknowledged: Set<string>;
  /** The non-retryable errors, by session or job. */
  readonly refused: Map<string, string>;
  readonly entries: { readonly work: string; readonly atMs: number; readonly text: string }[];
};

export type UserDeps = {
  readonly world: Pick<World, "sessions">;
  readonly milestones: Milestones;
  readonly userLog: UserLog;
  /** Start of the run on the monotonic clock. */
  readonly startedAtMs: number;
  readonly stop: AbortSignal;
};

export const CALL_TIMEOUT_MS = 5000;
const RETRY_MS = 300;

/** Submits a session, and cancels it where its shape has a cancellation. Retries until it gets an answer, like the command line. */
export async function runUser(deps: UserDeps, shape: SessionShape): Promise<void> {
  const { startedAtMs, stop } = deps;
  await pause(startedAtMs + shape.submitAtMs - performance.now(), stop);
  const submissions = [submit(deps, shape), ...(shape.submitTwice ? [submit(deps, shape)] : [])];
  await Promise.all([...submissions, shape.cancel === undefined ? undefined : cancel(deps, shape.name, shape.cancel)]);
}

async function submit({ world, userLog, stop }: UserDeps, shape: SessionShape): Promise<void> {
  const { name } = shape;
  const request = { requestId: `submit-${name}`, name, spec: { ...toSpec(buildSession(shape)), queue: SESSION_QUEUE } };
  const answered = await retryUntilAnswered(userLog, { work: name, request: "submission" }, stop, () =>
    world.sessions.submitSession(request, { timeoutMs: CALL_TIMEOUT_MS, signal: stop }),
  );
  if (answered) userLog.acknowledged.add(name);
}

async function cancel(
  { world, milestones, userLog, stop }: UserDeps,
  name: string,
  { phase, afterMs }: NonNullable<SessionShape["cancel"]>,
): Promise<void> {
  await milestones.reached(name, phase, stop).catch(() => undefined);
  await pause(afterMs, stop);
  await retryUntilAnswered(userLog, { work: name, request: "cancellation" }, stop, () =>
    world.sessions.cancelSession({ requestId: `cancel-${name}`, name }, { timeoutMs: CALL_TIMEOUT_MS, signal: stop }),
  );
}

/** Retries a call until it succeeds or fails with a non-retryable error. Returns whether it succeeded. */
export async function retryUntilAnswered(
  userLog: UserLog,
  { work, request }: { readonly work: string; readonly request: string },
  stop: AbortSignal,
  call: () => Promise<unknown>,
): Promise<boolean> {
  const note = (text: string): void =>
    void userLog.entries.push({ work, atMs: Date.now(), text: `${request} ${text}` });
  note("is sent");
  while (!stop.aborted) {
    try {
      await call();
      note("is acknowledged");
      return true;
    } catch (error) {
      const fault = findFault(error);
      if (fault === undefined) throw error;
      note(`failed: ${describeFault(fault)}`);
      if (!isRetryable(fault)) {
        if (fault.code !== "cancelled") userLog.refused.set(work, `${request}: ${describeFault(fault)}`);
        return false;
      }
      await pause(RETRY_MS, stop);
    }
  }
  return false;
}

/** Resolves after this time, or when the signal aborts. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return sleep(Math.max(0, ms), undefined, { signal }).catch(() => undefined);
}
