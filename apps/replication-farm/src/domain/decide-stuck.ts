import type { RolloutStep } from "./plan-rollout.ts";
import type { ReplicaSet, SetTrouble } from "./replica-set.ts";
import type { Rollout } from "./rollout.ts";

/** The reason why a rolling update waits, and since when. */
export type RolloutWait = { readonly at: string; readonly sinceMs: number };

const STUCK: Readonly<Record<string, string>> = {
  "minimum-healthy": "moving a replica would leave too few healthy ones",
  "places-missing": "the new set does not get its placements",
  "surplus-there": "the surplus placements of a set are not removed",
  "old-pods-there": "the placements of the old set are not removed",
};

/**
 * Returns the trouble of a rolling update that has waited for one reason longer than `unhealthyMs` plus the `minReadySeconds` of its sets. Undefined: the
 * update moves, or is paused. `before`: the wait at the previous decision of this farm.
 */
export function decideStuck(
  before: RolloutWait | undefined,
  rollout: Rollout,
  step: RolloutStep,
  {
    nowMs,
    unhealthyMs,
    sets,
  }: { readonly nowMs: number; readonly unhealthyMs: number; readonly sets: readonly Pick<ReplicaSet, "spec">[] },
): { readonly trouble: SetTrouble | undefined; readonly wait: RolloutWait | undefined } {
  const why = step.kind === "wait" ? STUCK[step.because] : undefined;
  if (why === undefined) return { trouble: undefined, wait: undefined };
  const { oldSet, newSet, oldDesired, newDesired } = rollout;
  const at = `${step.because} ${oldSet} ${newSet} ${oldDesired} ${newDesired}`;
  const wait = before?.at === at ? before : { at, sinceMs: nowMs };
  const provingMs = 1000 * Math.max(0, ...sets.map(({ spec }) => spec.minReadySeconds));
  if (nowMs - wait.sinceMs < unhealthyMs + provingMs) return { trouble: undefined, wait };
  const message = `${why} (${newDesired} of ${rollout.target} moved)`;
  return { trouble: { code: "ROLL_STUCK", message, sinceMs: nowMs }, wait };
}
