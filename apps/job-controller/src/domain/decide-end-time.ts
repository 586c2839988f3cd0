import type { PodFact } from "./snapshot.ts";

/** Clocks of a maintained cluster do not differ by more than this. */
export const MAX_CLOCK_SKEW_MS = 10_000;

/**
 * Returns when a pod ended, if the clock of its node is plausible: not before its creation, and not in the future. Otherwise returns the time of its creation,
 * by the clock of the API server. Thus a pod that fails immediately still gets its pause, and the difference of the clocks does not extend the pause.
 */
export function decideEndMs({ createdMs, finishedMs }: PodFact, nowMs: number): number {
  if (finishedMs === undefined || finishedMs < createdMs || finishedMs > nowMs + MAX_CLOCK_SKEW_MS) return createdMs;
  return finishedMs;
}
