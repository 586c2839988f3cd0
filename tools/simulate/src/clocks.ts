import type { Random } from "@muster/chaos/random";

/** The services tolerate this difference between two clocks of one installation. */
export const MAX_CLOCK_SKEW_MS = 10_000;

/** Draws the offset of a wall clock from virtual time. */
export function drawClockOffsetMs(random: Random): number {
  return random.integer(0, MAX_CLOCK_SKEW_MS) - MAX_CLOCK_SKEW_MS / 2;
}
