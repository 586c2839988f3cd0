import fc from "fast-check";
import { expect, it } from "vitest";
import { decideReadInterval } from "./decide-read-interval.ts";

it.each([
  ["soon after a change", { changes: 3, readMs: 2, intervalMs: 800 }, 50],
  ["in proportion to the time that reading takes", { changes: 3, readMs: 100, intervalMs: 50 }, 200],
  ["at the limit after a list that takes long", { changes: 3, readMs: 600, intervalMs: 50 }, 1000],
  ["later without a change", { changes: 0, readMs: 2, intervalMs: 100 }, 200],
  ["at the limit after a long time without a change", { changes: 0, readMs: 2, intervalMs: 800 }, 1000],
])("reads %s", (_what, last, intervalMs) => {
  expect(decideReadInterval(last, 1000)).toBe(intervalMs);
});

it("stays within its limit, and reaches it while nothing changes", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 10, max: 60_000 }),
      fc.integer({ min: 0, max: 5000 }),
      fc.nat(10),
      (maxMs, readMs, changes) => {
        let intervalMs = decideReadInterval({ changes, readMs, intervalMs: 0 }, maxMs);
        expect(intervalMs).toBeLessThanOrEqual(maxMs);
        for (let quiet = 0; quiet < 20; quiet += 1)
          intervalMs = decideReadInterval({ changes: 0, readMs, intervalMs }, maxMs);
        expect(intervalMs).toBe(maxMs);
      },
    ),
  );
});
