import type { PodFact } from "./snapshot.ts";

/** Clocks of a cluster that is looked after are not further apart. */
export const CLOCKS_APART_MS = 10_000;

/**
 * When a pod has ended, as far as the clock of its node can be believed: not before it was made, and not in the future. Otherwise it is taken to have ended when it was
 * made, by the clock of the API server: so a pause after it is neither left out for a pod that fails at once, nor as long as clocks are apart.
 */
export function decideEndMs({ createdMs, finishedMs }: PodFact, nowMs: number): number {
  if (finishedMs === undefined || finishedMs < createdMs || finishedMs > nowMs + CLOCKS_APART_MS) return createdMs;
  return finishedMs;
}
