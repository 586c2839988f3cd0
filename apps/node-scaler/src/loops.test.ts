import { fixedClock } from "@muster/testkit";
import { expect, it } from "vitest";
import { emptyReport, runLoop } from "./loops.ts";

it("counts rounds and failures, goes on after a failure, and stops at the signal", async () => {
  const clock = fixedClock(0);
  const stop = new AbortController();
  const report = emptyReport("pool", 7000);
  const waits: number[] = [];
  const told: unknown[] = [];
  let round = 0;
  await runLoop(
    report,
    () => {
      round += 1;
      clock.advance(round * 100);
      return round === 2 ? Promise.reject(new Error("the ledger is away")) : Promise.resolve();
    },
    {
      signal: stop.signal,
      now: clock.now,
      wait: (ms) => {
        waits.push(ms);
        if (waits.length === 3) stop.abort();
        return Promise.resolve();
      },
      ended: (_report, error) => told.push(error),
    },
  );
  expect(waits).toEqual([7000, 7000, 7000]);
  expect(told.map((error) => error instanceof Error)).toEqual([false, true]);
  expect(report).toEqual({
    name: "pool",
    intervalMs: 7000,
    rounds: 2,
    failures: 1,
    lastStartedAtMs: 100,
    lastDurationMs: 200,
    meanDurationMs: 150,
    error: "the ledger is away",
  });
});
