import type { PodFact } from "./snapshot.ts";

/** Clocks of a maintained cluster do not differ by more. */
export const CLOCKS_APART_MS = 10_000;

/**
 * When a pod ended, if the clock of its node is plausible: not before its creation, and not in the future. Otherwise the time of its creation, by the clock
 * of the API server: then the pause after it is neither skipped for a pod that fails immediately, nor as long as clocks differ.
 */
export function decideEndMs({ createdMs, finishedMs }: PodFact, nowMs: number): number {
  if (finishedMs === undefined || finishedMs < createdMs || finishedMs > nowMs + CLOCKS_APART_MS) return createdMs;
  return finishedMs;
}
