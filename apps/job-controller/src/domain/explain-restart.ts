import type { NextRestart } from "./decide-restart.ts";

/** For people: `restart 3 of 6 in 40 s: pod train-worker-0 failed with exit code 1`. A restart that does not count has no number and no limit. */
export function explainRestart(restart: NextRestart, nowMs: number): string {
  const leftMs = restart.atMs - nowMs;
  const when = leftMs > 0 ? ` in ${Math.ceil(leftMs / 1000)} s` : "";
  return `${whichRestart(restart)}${when}: ${restart.because}`;
}

/** The part that is the same during the whole pause. */
export function whichRestart({ number, limit }: Pick<NextRestart, "number" | "limit">): string {
  if (number === undefined) return "a restart that does not count";
  return `restart ${number}${limit === undefined ? "" : ` of ${limit}`}`;
}
