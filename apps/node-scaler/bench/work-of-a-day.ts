import { aDemand } from "../test/scaling-snapshots.ts";
import type { Demand } from "../src/domain/demand.ts";
import { drawExponential, makeRandom } from "./random.ts";

export const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;

export type Work = { readonly demand: Demand; readonly runMs: number };

/** Generates single demands and gangs that arrive over a day, few at night and the most in the afternoon. Each seed always gives the same work. */
export function drawWorkOfDay(seed: number): readonly Work[] {
  const random = makeRandom(seed);
  const work: Work[] = [];
  let number = 0;
  for (let atMs = 0; ; number += 1) {
    // The busiest hour has three groups per minute.
    atMs += drawExponential(random, 20_000);
    if (atMs >= DAY_MS) return work;
    if (random() > loadAt(atMs)) continue;
    const size = random() < 0.5 ? 1 : 2 + Math.floor(drawExponential(random, 18));
    const spot = random() < 0.6 ? "Preferred" : "Never";
    const runMs = 60_000 + drawExponential(random, 44 * 60_000);
    for (let member = 0; member < Math.min(size, 64); member += 1) {
      const demand = aDemand(`group-${number}/${member}`, {
        group: `group-${number}`,
        createdAtMs: Math.floor(atMs),
        instanceTypes: ["large", "huge"],
        spot,
      });
      work.push({ demand, runMs: Math.floor(runMs) });
    }
  }
}

/** Returns the load, from 0.15 at night to 1 at three in the afternoon. */
function loadAt(atMs: number): number {
  return 0.575 + 0.425 * Math.cos(((atMs - 15 * HOUR_MS) / DAY_MS) * 2 * Math.PI);
}
