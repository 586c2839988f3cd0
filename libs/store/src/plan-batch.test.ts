import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { planBatch } from "./plan-batch.ts";

describe("planning an entry of the log", () => {
  it.each<[string, number[], number, number]>([
    ["takes nothing when nothing waits", [], 100, 0],
    ["takes all that fits exactly", [50, 50], 100, 2],
    ["leaves what would be too much", [50, 51, 1], 100, 1],
    ["takes decisions without events along", [100, 0, 0, 1], 100, 3],
    ["takes one that is too large alone, rather than none", [200, 1], 100, 1],
  ])("%s", (_title, sizes, limit, count) => {
    expect(planBatch(sizes, limit)).toBe(count);
  });

  it("takes as many decisions as fit, and always makes progress", () => {
    const sizes = fc.array(fc.nat(100));
    fc.assert(
      fc.property(sizes, fc.integer({ min: 100, max: 500 }), (all, limit) => {
        let rest = all;
        while (rest.length > 0) {
          const count = planBatch(rest, limit);
          const bytes = rest.slice(0, count).reduce((sum, size) => sum + size, 0);
          expect(count).toBeGreaterThan(0);
          expect(bytes).toBeLessThanOrEqual(limit);
          const next = rest[count];
          if (next !== undefined) expect(bytes + next).toBeGreaterThan(limit);
          rest = rest.slice(count);
        }
      }),
    );
  });
});
