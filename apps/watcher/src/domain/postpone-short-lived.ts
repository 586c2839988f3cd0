import type { DesiredState, PublishedState, PublishStep } from "./plan-publish.ts";
import type { PodState } from "./pod-state.ts";

/** Maximum time for which the write of a short-lived state is postponed. */
export const MAX_POSTPONE_MS = 1000;

/** A pod whose write waits until this time. */
export type PostponedWrite = { readonly key: string; readonly untilMs: number };

/**
 * Postpones writes of states that no decision needs and that mostly change within a second: the states of a pod before its first address, and details of a
 * published state. A later state of the pod replaces them.
 */
export function postponeShortLivedStates(
  steps: readonly PublishStep<PodState>[],
  seen: {
    readonly nowMs: number;
    readonly desired: readonly DesiredState<PodState>[];
    readonly published: readonly PublishedState<PodState>[];
  },
): { readonly due: readonly PublishStep<PodState>[]; readonly postponed: readonly PostponedWrite[] } {
  if (steps.length === 0) return { due: steps, postponed: [] };
  const createdAtMs = new Map(seen.desired.map((each) => [each.key, each.createdAtMs]));
  const published = new Map(seen.published.map(({ key, state }) => [key, state]));
  const due: PublishStep<PodState>[] = [];
  const postponed: PostponedWrite[] = [];
  for (const step of steps) {
    const before = published.get(step.key);
    const sinceMs = before === undefined ? createdAtMs.get(step.key) : before.observedAtMs;
    if (sinceMs !== undefined && isYoung(sinceMs, seen.nowMs) && isShortLived(step, before))
      postponed.push({ key: step.key, untilMs: sinceMs + MAX_POSTPONE_MS });
    else due.push(step);
  }
  return { due, postponed };
}

/** Returns whether the state is younger than MAX_POSTPONE_MS. A time from the future, by a clock that is ahead, postpones no write. */
function isYoung(sinceMs: number, nowMs: number): boolean {
  return sinceMs <= nowMs && nowMs < sinceMs + MAX_POSTPONE_MS;
}

function isShortLived(step: PublishStep<PodState>, before: PodState | undefined): boolean {
  if (step.kind !== "put") return false;
  const { state, because } = step;
  if (because === "new") return isStarting(state);
  if (because !== "changed" || before === undefined) return false;
  return (isStarting(before) && isStarting(state)) || DECISIVE.every((field) => state[field] === before[field]);
}

function isStarting({ health, podIp, deleting }: PodState): boolean {
  return podIp === "" && !deleting && (health === "NOT_READY" || health === "UNKNOWN");
}

const DECISIVE = ["health", "reason", "podIp", "deleting", "deleted"] as const satisfies readonly (keyof PodState)[];
