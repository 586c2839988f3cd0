import fc from "fast-check";
import { expect, it } from "vitest";
import { computeBackoffMs, makeDeadline, pause, within } from "./backoff.ts";

it("doubles from the first pause to the longest", () => {
  const limits = { firstMs: 500, maxMs: 30_000 };
  const delays = [0, 1, 2, 3, 7, 50].map((attempt) => computeBackoffMs(attempt, limits, () => 1));
  expect(delays).toEqual([500, 500, 1000, 2000, 30_000, 30_000]);
});

it("grows, and stays between half of the exponential delay and the maximum", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 10_000 }), fc.double({ min: 0, max: 1, noNaN: true }), (attempt, spread) => {
      const delay = computeBackoffMs(attempt, { firstMs: 20, maxMs: 500 }, () => spread);
      const full = Math.min(500, 20 * 2 ** Math.min(attempt - 1, 10));
      expect(delay).toBeGreaterThanOrEqual(Math.floor(full / 2));
      expect(delay).toBeLessThanOrEqual(full);
    }),
  );
});

it("ends a pause when the signal is aborted, and does not begin one when it was before", async () => {
  await pause(3_600_000, AbortSignal.abort());
  const stop = new AbortController();
  const paused = pause(3_600_000, stop.signal);
  stop.abort();
  await paused;
});

it("waits for work no longer than its limit, and takes a failure for an end", async () => {
  expect(await within(3_600_000, Promise.resolve(1))).toBe(true);
  expect(await within(3_600_000, Promise.reject(new Error("x")))).toBe(true);
  expect(await within(1, new Promise(() => undefined))).toBe(false);
});

it("aborts at its deadline or with another signal, and never after disposal", async () => {
  const outer = new AbortController();
  const after = makeDeadline(3_600_000, [outer.signal]);
  const disposed = makeDeadline(1, [outer.signal]);
  disposed[Symbol.dispose]();
  const { promise, resolve } = Promise.withResolvers<undefined>();
  using short = makeDeadline(1);
  short.signal.addEventListener("abort", () => resolve(undefined));
  // The timer of the deadline does not keep the process alive.
  const alive = setInterval(() => undefined, 1000);
  await promise.finally(() => clearInterval(alive));
  expect(short.signal.reason).toMatchObject({ name: "TimeoutError" });
  outer.abort("enough");
  expect(after.signal.reason).toBe("enough");
  expect(disposed.signal.aborted).toBe(false);
  after[Symbol.dispose]();
  using late = makeDeadline(3_600_000, [outer.signal]);
  expect(late.signal.reason).toBe("enough");
});
