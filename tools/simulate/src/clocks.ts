import type { Random } from "@muster/chaos/random";

/** What the services promise to bear: two clocks of one installation are no further apart than this. */
export const CLOCKS_APART_MS = 10_000;

/** How far ahead of virtual time, or behind it, a wall clock is. */
export function drawClockOffsetMs(random: Random): number {
  return random.integer(0, CLOCKS_APART_MS) - CLOCKS_APART_MS / 2;
}
