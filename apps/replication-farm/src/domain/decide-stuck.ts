import type { RolloutStep } from "./plan-rollout.ts";
import type { ReplicaSet, Trouble } from "./replica-set.ts";
import type { Rollout } from "./rollout.ts";

/** The reason why a rolling update waits, and since when. */
export type RolloutWait = { readonly at: string; readonly sinceMs: number };

const STUCK: Readonly<Record<string, string>> = {
  "minimum-healthy": "no replica can be moved without too few that are healthy",
  "places-missing": "the new set does not get its places",
  "surplus-there": "the places that a set has to give up do not go",
  "old-pods-there": "the places of the old set do not go",
};

/**
 * Returns the trouble of a rolling update that has waited for one reason longer than `unhealthyMs` plus the `minReadySeconds` of its sets. Undefined: it moves,
 * or is paused. `before`: the wait at the previous decision of this farm.
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
): { readonly trouble: Trouble | undefined; readonly wait: RolloutWait | undefined } {
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
