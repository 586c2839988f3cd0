import { expect, it } from "vitest";
import { simulate } from "../src/simulate.ts";
import type { TamperNodes } from "../src/replicas/reservation-manager.ts";

const AHEAD_MS = 600_000;
/** After the time of the last mark. */
const UNTIL_MS = 900_000;
const SEED = 3;
const STALE = "nothing is granted on stale node data";

/** A ledger that trusts the clock of the watcher that wrote the mark. */
const trustsEveryMark: TamperNodes = (nodes) => ({
  ...nodes,
  areAllKnown: (nowMs) => nodes.areAllKnown(nowMs) || nowMs > 0,
});

it.each<{ title: string; nodes: TamperNodes; found: boolean }>([
  {
    title: "grants nothing on the mark of watchers that were ten minutes ahead and died",
    nodes: (nodes) => nodes,
    found: false,
  },
  { title: "that trusts every mark is found", nodes: trustsEveryMark, found: true },
])(
  "the ledger $title",
  async ({ nodes, found }) => {
    const stop = new AbortController();
    const { violations } = await simulate({
      seed: SEED,
      sessions: 60,
      plant: { fastWatchersMs: AHEAD_MS, nodes },
      inspectAt: { ms: UNTIL_MS, inspect: () => stop.abort() },
      signal: stop.signal,
    });
    expect(violations.some(({ rule }) => rule === STALE)).toBe(found);
  },
  120_000,
);
