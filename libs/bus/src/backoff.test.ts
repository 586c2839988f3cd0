import fc from "fast-check";
import { expect, it } from "vitest";
import { backoffMs, pause, within } from "./backoff.ts";
import { retryDelayMs } from "./delivery.ts";

it("grows, is never over the most, and never under half of what it grew to", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 10_000 }), fc.double({ min: 0, max: 1, noNaN: true }), (attempt, spread) => {
      const delay = backoffMs(attempt, { firstMs: 20, mostMs: 500 }, () => spread);
      const full = Math.min(500, 20 * 2 ** Math.min(attempt - 1, 10));
      expect(delay).toBeGreaterThanOrEqual(Math.floor(full / 2));
      expect(delay).toBeLessThanOrEqual(full);
    }),
  );
});

it("delays a failed message by 1 s, doubling to 60 s", () => {
  expect([1, 2, 3, 6, 7, 1000].map(retryDelayMs)).toEqual([1000, 2000, 4000, 32_000, 60_000, 60_000]);
});

it("ends a pause when the signal is aborted, and does not begin one when it was before", async () => {
  await pause(3_600_000, AbortSignal.abort());
  const stop = new AbortController();
  const paused = pause(3_600_000, stop.signal);
  stop.abort();
  await paused;
});

it("waits for work no longer than it may, and takes a failure for an end", async () => {
  expect(await within(3_600_000, Promise.resolve(1))).toBe(true);
  expect(await within(3_600_000, Promise.reject(new Error("x")))).toBe(true);
  expect(await within(1, new Promise(() => undefined))).toBe(false);
});
