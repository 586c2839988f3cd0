import { expect, it } from "vitest";
import { simulate } from "../src/simulate.ts";
import type { TamperNodes } from "../src/replicas/reservation-manager.ts";

const AHEAD_MS = 600_000;
/** By then the time has passed that the last mark names. */
const UNTIL_MS = 900_000;
const SEED = 3;
const STALE = "nothing is granted on what a silent watcher knew";

/** A ledger for which a mark is no older than the watcher that wrote it says. */
const believesAll: TamperNodes = (nodes) => ({
  ...nodes,
  areAllKnown: (nowMs) => nodes.areAllKnown(nowMs) || nowMs > 0,
});

it.each<{ title: string; nodes: TamperNodes; found: boolean }>([
  {
    title: "grants nothing on the mark of watchers that were ten minutes ahead and died",
    nodes: (nodes) => nodes,
    found: false,
  },
  { title: "that believes every mark is found", nodes: believesAll, found: true },
])(
  "the ledger $title",
  async ({ nodes, found }) => {
    const stop = new AbortController();
    const { violations } = await simulate({
      seed: SEED,
      sessions: 60,
      plant: { fastWatchersMs: AHEAD_MS, nodes },
      lookAt: { ms: UNTIL_MS, look: () => stop.abort() },
      signal: stop.signal,
    });
    expect(violations.some(({ rule }) => rule === STALE)).toBe(found);
  },
  120_000,
);
