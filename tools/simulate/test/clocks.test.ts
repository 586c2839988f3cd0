import { expect, it } from "vitest";
import { runSimulation } from "../src/simulate.ts";
import type { TamperNodes } from "../src/replicas/reservation-manager.ts";

const AHEAD_MS = 600_000;
/** Later than the last mark. */
const UNTIL_MS = 900_000;
/** The defect is found in a part of the runs: whether a request comes at the wrong moment is up to the seed. */
const SEEDS = [8, 11];
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
    const runs = SEEDS.map((seed) => {
      const stop = new AbortController();
      return runSimulation({
        seed,
        sessions: 60,
        plant: { fastWatchersMs: AHEAD_MS, nodes },
        inspectAt: { ms: UNTIL_MS, inspect: () => stop.abort() },
        signal: stop.signal,
      });
    });
    const violations = (await Promise.all(runs)).flatMap((run) => run.violations);
    expect(violations.some(({ rule }) => rule === STALE)).toBe(found);
  },
  120_000,
);
