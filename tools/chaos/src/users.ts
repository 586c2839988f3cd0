import { setTimeout as sleep } from "node:timers/promises";
import { describeFault, faultOf, isRetryable } from "@muster/faults";
import { buildSession } from "./domain/build-session.ts";
import type { Shape } from "./domain/plan-shapes.ts";
import { toSpec } from "./messages.ts";
import type { Milestones } from "./milestones.ts";
import type { World } from "./world.ts";

/** What the users of a run did, as it happened. */
export type Diary = {
  readonly acknowledged: Set<string>;
  /** Sessions and jobs that their user gave up, and why. */
  readonly refused: Map<string, string>;
  readonly entries: { readonly work: string; readonly atMs: number; readonly text: string }[];
};

export type UserDeps = {
  readonly world: Pick<World, "sessions">;
  readonly milestones: Milestones;
  readonly diary: Diary;
  /** On the monotonic clock. */
  readonly startedAtMs: number;
  readonly stop: AbortSignal;
};

export const CALL_TIMEOUT_MS = 5000;
const AGAIN_MS = 300;

/** Submits a session and, when its shape says so, cancels it. Asks again until it is answered, as the command line does. */
export async function beUser(deps: UserDeps, shape: Shape): Promise<void> {
  const { startedAtMs, stop } = deps;
  await pause(startedAtMs + shape.submitAtMs - performance.now(), stop);
  const submissions = [submit(deps, shape), ...(shape.submitTwice ? [submit(deps, shape)] : [])];
  await Promise.all([...submissions, shape.cancel === undefined ? undefined : cancel(deps, shape.name, shape.cancel)]);
}

async function submit({ world, diary, stop }: UserDeps, shape: Shape): Promise<void> {
  const { name } = shape;
  const request = { requestId: `submit-${name}`, name, spec: toSpec(buildSession(shape)) };
  const answered = await insist(diary, { work: name, what: "submission" }, stop, () =>
    world.sessions.submitSession(request, { timeoutMs: CALL_TIMEOUT_MS, signal: stop }),
  );
  if (answered) diary.acknowledged.add(name);
}

async function cancel(
  { world, milestones, diary, stop }: UserDeps,
  name: string,
  { phase, afterMs }: NonNullable<Shape["cancel"]>,
): Promise<void> {
  await milestones.reached(name, phase, stop).catch(() => undefined);
  await pause(afterMs, stop);
  await insist(diary, { work: name, what: "cancellation" }, stop, () =>
    world.sessions.cancelSession({ requestId: `cancel-${name}`, name }, { timeoutMs: CALL_TIMEOUT_MS, signal: stop }),
  );
}

/** Makes a call again until it is answered, or until no further attempt can help. Returns whether it was obeyed. */
export async function insist(
  diary: Diary,
  { work, what }: { readonly work: string; readonly what: string },
  stop: AbortSignal,
  call: () => Promise<unknown>,
): Promise<boolean> {
  const note = (text: string): void => void diary.entries.push({ work, atMs: Date.now(), text: `${what} ${text}` });
  note("is sent");
  while (!stop.aborted) {
    try {
      await call();
      note("is acknowledged");
      return true;
    } catch (error) {
      const fault = faultOf(error);
      if (fault === undefined) throw error;
      note(`failed: ${describeFault(fault)}`);
      if (!isRetryable(fault)) {
        if (fault.code !== "cancelled") diary.refused.set(work, `${what}: ${describeFault(fault)}`);
        return false;
      }
      await pause(AGAIN_MS, stop);
    }
  }
  return false;
}

/** Resolves after so long, or at the signal. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return sleep(Math.max(0, ms), undefined, { signal }).catch(() => undefined);
}
