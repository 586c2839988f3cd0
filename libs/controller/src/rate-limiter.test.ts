import fc from "fast-check";
import { expect, it } from "vitest";
import { makeFixedClock } from "@muster/testkit";
import { DEFAULT_RATE_LIMITS, makeRateLimiter } from "./rate-limiter.ts";

/** Draws the longest pause. */
const longest = (): number => 1 - Number.EPSILON;

it("doubles the pause of a key from 5 ms to 1000 s, and starts again at 5 ms once it is forgotten", () => {
  const limiter = makeRateLimiter({ ...DEFAULT_RATE_LIMITS, burst: 1000 }, () => 0, longest);
  const pauses = Array.from({ length: 2000 }, () => limiter.delayMs("a"));
  expect(pauses.slice(0, 4)).toEqual([5, 10, 20, 40]);
  expect(pauses.slice(17, 20)).toEqual([655_360, 1_000_000, 1_000_000]);
  expect(pauses.at(-1)).toBe(1_000_000);
  expect(limiter.failures("a")).toBe(2000);
  expect(limiter.delayMs("b")).not.toBe(5);
  limiter.forget("a");
  expect(limiter.failures("a")).toBe(0);
});

it("spreads keys that failed together over the upper half of their pause", () => {
  const draws = [0, 0.25, 0.5, longest()].values();
  const limiter = makeRateLimiter(
    { ...DEFAULT_RATE_LIMITS, firstMs: 1000 },
    () => 0,
    () => draws.next().value ?? 0,
  );
  expect(["a", "b", "c", "d"].map((key) => limiter.delayMs(key))).toEqual([500, 625, 750, 1000]);
});

it("pauses a key for 50 % to 100 % of its exponential pause, whatever is drawn", () => {
  const fraction = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
  fc.assert(
    fc.property(fc.array(fraction, { minLength: 1, maxLength: 40 }), (fractions) => {
      const draws = fractions.values();
      const limits = { ...DEFAULT_RATE_LIMITS, firstMs: 10, maxMs: 5000 };
      const limiter = makeRateLimiter(
        limits,
        () => 0,
        () => draws.next().value ?? 0,
      );
      for (const failures of fractions.keys()) {
        const fullMs = Math.min(10 * 2 ** failures, 5000);
        const delayMs = limiter.delayMs("a");
        expect(delayMs).toBeGreaterThanOrEqual(fullMs / 2);
        expect(delayMs).toBeLessThanOrEqual(fullMs);
      }
    }),
  );
});

it("lets a hundred keys pass immediately, then ten a second", () => {
  const limiter = makeRateLimiter(DEFAULT_RATE_LIMITS, () => 0, longest);
  const pauses = Array.from({ length: 103 }, (_, at) => limiter.delayMs(`key-${at}`));
  expect(pauses.slice(0, 100).every((ms) => ms === 5)).toBe(true);
  expect(pauses.slice(100).map(Math.round)).toEqual([100, 200, 300]);
});

it("lets no key wait longer than the maximum for the others, and spreads those that would", () => {
  let draw = 0;
  const limiter = makeRateLimiter(
    { ...DEFAULT_RATE_LIMITS, burst: 1, maxWaitMs: 100 },
    () => 0,
    () => draw,
  );
  for (let each = 0; each < 100; each += 1) limiter.delayMs(`key-${each}`);
  const waits = [0, 0.5, longest()].map((drawn, at) => {
    draw = drawn;
    return Math.round(limiter.delayMs(`new-${at}`));
  });
  expect(waits).toEqual([50, 75, 100]);
});

it("never admits more in any period than the burst and the refilled tokens", () => {
  fc.assert(
    fc.property(
      fc.array(fc.integer({ min: 0, max: 400 }), { maxLength: 100 }),
      fc.integer({ min: 1, max: 20 }),
      (gaps, burst) => {
        const clock = makeFixedClock(0);
        const limiter = makeRateLimiter(
          { firstMs: 0.001, maxMs: 0.001, perSecond: 10, burst, maxWaitMs: Infinity },
          clock.now,
        );
        const starts = gaps.map((gap, at) => {
          clock.advance(gap);
          return clock.now() + limiter.delayMs(String(at));
        });
        starts.forEach((from, at) => {
          starts.slice(at).forEach((to, more) => {
            expect(more + 1).toBeLessThanOrEqual(burst + ((to - from) / 1000) * 10 + 0.01);
          });
        });
      },
    ),
  );
});

it.each(["firstMs", "maxMs", "perSecond", "burst", "maxWaitMs"])("does not accept a %s of 0", (name) => {
  expect(() => makeRateLimiter({ ...DEFAULT_RATE_LIMITS, [name]: 0 }, () => 0)).toThrow(name);
});
