import fc from "fast-check";
import { expect, it } from "vitest";
import { retryDelayMs } from "./delivery.ts";

it("waits a second after the first attempt and doubles up to a minute", () => {
  expect([1, 2, 3, 4, 5, 6, 7, 8, 1000].map(retryDelayMs)).toEqual([
    1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000,
  ]);
});

it("never waits shorter after a later attempt, and never longer than a minute", () => {
  const attempts = fc.integer({ min: 1, max: 2 ** 31 });
  fc.assert(
    fc.property(attempts, attempts, (a, b) => {
      const [earlier, later] = [Math.min(a, b), Math.max(a, b)].map(retryDelayMs);
      expect(earlier).toBeLessThanOrEqual(later ?? 0);
      expect(later).toBeLessThanOrEqual(60_000);
    }),
  );
});
