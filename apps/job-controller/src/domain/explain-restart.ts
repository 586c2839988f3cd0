import type { NextRestart } from "./decide-restart.ts";

/** For people: `restart 3 of 6 in 40 s`. What does not count has no number, and no budget either. */
export function explainRestart(restart: NextRestart, nowMs: number): string {
  const leftMs = restart.atMs - nowMs;
  if (leftMs > 0) return `${whichRestart(restart)} in ${Math.ceil(leftMs / 1000)} s`;
  return `${whichRestart(restart)}: pods that failed are made anew`;
}

/** The part that is the same during the whole pause. */
export function whichRestart({ number, most }: Pick<NextRestart, "number" | "most">): string {
  if (number === undefined) return "a restart that does not count";
  return `restart ${number}${most === undefined ? "" : ` of ${most}`}`;
}
