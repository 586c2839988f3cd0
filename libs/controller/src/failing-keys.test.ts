import { makeVirtualClock } from "@muster/testkit";
import fc from "fast-check";
import { expect, it } from "vitest";
import { runController } from "./controller.ts";
import { DEFAULT_RATE_LIMITS } from "./rate-limiter.ts";
import { workQueue } from "./work-queue.ts";

type Load = { readonly failingKeys: number; readonly runMs: number; readonly eventEveryMs: number };

/** Milliseconds from the first failure of a new key to its retry, after other keys have failed for a time. */
async function firstRetryMs({ failingKeys, runMs, eventEveryMs }: Load): Promise<number> {
  const clock = makeVirtualClock();
  const queue = workQueue({ clock });
  const keys = Array.from({ length: failingKeys }, (_, at) => `job-${at}`);
  const passesAtMs: number[] = [];
  const stop = new AbortController();
  const ended = runController({
    name: "tested",
    queue,
    workers: 8,
    reconcile: (key) => {
      if (key === "new") passesAtMs.push(clock.now());
      return Promise.reject(new Error("away"));
    },
    resync: { keys: () => keys },
    stop: stop.signal,
    clock,
  });
  for (const key of keys) queue.add(key);
  for (let atMs = 0; atMs < runMs; atMs += eventEveryMs) {
    await clock.run(Math.min(eventEveryMs, runMs - atMs));
    for (const key of keys.slice(0, 50)) queue.add(key);
  }
  queue.add("new");
  await clock.run(DEFAULT_RATE_LIMITS.maxWaitMs + 1);
  stop.abort();
  await ended;
  const [failedAtMs = NaN, retriedAtMs = Infinity] = passesAtMs;
  return retriedAtMs - failedAtMs;
}

it("retries a new key within the stated maximum while 1500 keys have failed for ten minutes", async () => {
  const load = { failingKeys: 1500, runMs: 600_000, eventEveryMs: 600_000 };
  expect(await firstRetryMs(load)).toBeLessThanOrEqual(DEFAULT_RATE_LIMITS.maxWaitMs);
});

it("retries a new key within the stated maximum, however many others fail, and however often they have events", async () => {
  const load = fc.record({
    failingKeys: fc.integer({ min: 0, max: 2000 }),
    runMs: fc.integer({ min: 1, max: 120_000 }),
    eventEveryMs: fc.integer({ min: 1000, max: 30_000 }),
  });
  await fc.assert(
    fc.asyncProperty(load, async (each) => {
      expect(await firstRetryMs(each)).toBeLessThanOrEqual(DEFAULT_RATE_LIMITS.maxWaitMs);
    }),
    { numRuns: 10 },
  );
});

it("leaves a key in back-off to its retry at a resync, and passes over it after an event", async () => {
  const clock = makeVirtualClock();
  const queue = workQueue({ clock, limits: { firstMs: 100_000 }, random: () => 1 - Number.EPSILON });
  const passesAtMs: number[] = [];
  const stop = new AbortController();
  const ended = runController({
    name: "tested",
    queue,
    reconcile: () => {
      passesAtMs.push(clock.now());
      return Promise.reject(new Error("away"));
    },
    resync: { keys: () => ["a"] },
    stop: stop.signal,
    clock,
  });
  queue.add("a");
  await clock.run(50_000);
  queue.add("a");
  await clock.run(50_000);
  expect(passesAtMs).toEqual([0, 50_000, 100_000]);
  stop.abort();
  await ended;
});
