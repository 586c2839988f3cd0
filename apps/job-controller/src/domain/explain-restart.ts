import type { NextRestart } from "./decide-restart.ts";
import type { RestartNumber } from "./job-status.ts";

/** Describes a restart for people: `restart 3 of 6 in 40 s: pod train-worker-0 failed with exit code 1`. An uncounted restart has no number and no limit. */
export function explainRestart(restart: NextRestart, nowMs: number): string {
  const leftMs = restart.atMs - nowMs;
  const when = leftMs > 0 ? ` in ${Math.ceil(leftMs / 1000)} s` : "";
  return `${describeRestartNumber(restart)}${when}: ${restart.because}`;
}

export function describeRestartNumber({ number, limit }: RestartNumber): string {
  if (number === undefined) return "a restart that does not count";
  return `restart ${number}${limit === undefined ? "" : ` of ${limit}`}`;
}
