import fc from "fast-check";
import { expect, it } from "vitest";
import { backoffMs } from "./backoff.ts";

const limits = { minMs: 500, maxMs: 30_000 };

it("doubles from the smallest pause to the cap", () => {
  expect([1, 2, 3, 7, 50].map((failures) => backoffMs(failures, limits, 1))).toEqual([500, 1000, 2000, 30_000, 30_000]);
});

it("never leaves half the smallest pause and the cap", () => {
  fc.assert(
    fc.property(fc.nat(5000), fc.double({ min: 0, max: 1, noNaN: true }), (failures, random) => {
      const pause = backoffMs(failures, limits, random);
      expect(pause).toBeGreaterThanOrEqual(limits.minMs / 2);
      expect(pause).toBeLessThanOrEqual(limits.maxMs);
    }),
  );
});
