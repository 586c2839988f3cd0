import { waitUntilSettled, makeVirtualClock } from "@muster/testkit";
import { expect, it } from "vitest";
import { makeEmptyReport, runLoops } from "./loops.ts";

it("counts rounds and failures, continues after a failure, and stops at the signal", async () => {
  const clock = makeVirtualClock();
  const stop = new AbortController();
  const report = makeEmptyReport("pool", 7000);
  const reports: unknown[] = [];
  const begunAtMs: number[] = [];
  let round = 0;
  let tookMs = 0;
  const running = runLoops(
    [
      {
        report,
        round: () => {
          round += 1;
          begunAtMs.push(clock.now());
          tookMs += round * 100;
          return round === 2 ? Promise.reject(new Error("the ledger is away")) : Promise.resolve();
        },
      },
    ],
    {
      lead: { signal: stop.signal, lost: stop.signal, isHeld: () => !stop.signal.aborted },
      now: () => tookMs,
      clock,
      onRoundEnd: (_report, error) => reports.push(error),
    },
  );
  await waitUntilSettled();
  await clock.run(20_000);
  stop.abort();
  await running;
  expect(begunAtMs).toEqual([7000, 14_000]);
  expect(reports.map((error) => error instanceof Error)).toEqual([false, true]);
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

it("delays the next round of a loop until the previous one ends, and delays no other loop", async () => {
  const clock = makeVirtualClock();
  const stop = new AbortController();
  const slow = Promise.withResolvers<undefined>();
  const rounds = { pool: 0, scan: 0 };
  const loop = (name: "pool" | "scan", round: () => Promise<unknown>) => ({
    report: makeEmptyReport(name, 1000),
    round: async () => {
      rounds[name] += 1;
      await round();
    },
  });
  const running = runLoops([loop("pool", () => slow.promise), loop("scan", () => Promise.resolve())], {
    lead: { signal: stop.signal, lost: stop.signal, isHeld: () => !stop.signal.aborted },
    now: clock.now,
    clock,
    onRoundEnd: () => undefined,
  });
  await waitUntilSettled();
  await clock.run(5000);
  expect(rounds).toEqual({ pool: 1, scan: 5 });
  slow.resolve(undefined);
  await clock.run(1000);
  expect(rounds.pool).toBe(2);
  stop.abort();
  await running;
});
