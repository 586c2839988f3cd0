import fc from "fast-check";
import { expect, it } from "vitest";
import { FEW } from "@muster/ledger-client/plan-sweep";
import { decideBrake, type Census } from "./decide-brake.ts";
import type { CleanupStep, LeaseTruth } from "./plan-cleanup.ts";

const POLICY = { mostObjects: 50, mostPercent: 50 };
const CENSUS: Census = { records: 3, bucketCreatedMs: 1_000_000 };
const steps = (keep: number, left: number, createdMs = 2_000_000): CleanupStep[] =>
  Array.from({ length: keep + left }, (_, at) => ({
    kind: at < keep ? "keep" : at % 2 === 0 ? "suspect" : "remove",
    object: {
      kind: "Secret",
      namespace: "default",
      name: `lease-1-${at}`,
      uid: `u-${at}`,
      createdMs,
      lease: { id: `1-${at}`, run: 1 },
      otherInstallation: undefined,
      isTerminating: false,
    },
    because: "",
  }));
const gone = (found: readonly CleanupStep[]) =>
  new Map<string, LeaseTruth>(found.map(({ object }) => [object.lease?.id ?? "", { kind: "none" }]));
const brake = (found: readonly CleanupStep[], census = CENSUS, confirmed = 0) =>
  decideBrake(found, { truth: gone(found) }, census, confirmed, POLICY);

it.each<[string, readonly CleanupStep[], Census, number, string | undefined]>([
  ["a few that are left over go", steps(0, FEW), CENSUS, 0, undefined],
  ["and half of many", steps(20, 20), CENSUS, 0, undefined],
  ["not more than half of many", steps(20, 21), CENSUS, 0, "more than 50 %"],
  ["nor more than so many, however many there are", steps(500, 51), CENSUS, 0, "more than 50"],
  ["nor anything without any record", steps(5, 1), { ...CENSUS, records: 0 }, 0, "no record of any lease"],
  ["nor what is older than the bucket of its record", steps(5, 1, 939_999), CENSUS, 0, "older than the bucket"],
  ["clocks may differ a little", steps(5, 1, 940_000), CENSUS, 0, undefined],
  ["nothing is held up where nothing is left over", steps(5, 0), { ...CENSUS, records: 0 }, 0, undefined],
  ["confirmed leftovers are removed", steps(0, 51), { ...CENSUS, records: 0 }, 51, undefined],
  ["and no more than that", steps(0, 52), CENSUS, 51, "more than 50"],
])("%s", (_title, found, census, confirmed, because) => {
  const verdict = brake(found, census, confirmed);
  if (because === undefined) expect(verdict).toBeUndefined();
  else expect(verdict?.because).toContain(because);
});

it("considers the age only of objects without any record", () => {
  const found = steps(5, 1, 0);
  const truth: LeaseTruth = { kind: "unknown", because: "?" };
  const known = new Map(found.map(({ object }) => [object.lease?.id ?? "", truth]));
  expect(decideBrake(found, { truth: known }, CENSUS, 0, POLICY)).toBeUndefined();
});

it("never removes more than is allowed or confirmed, and a removal of more never holds up less", () => {
  const counts = fc.record({
    keep: fc.nat({ max: 120 }),
    left: fc.nat({ max: 120 }),
    records: fc.nat({ max: 2 }),
    confirmed: fc.nat({ max: 120 }),
  });
  fc.assert(
    fc.property(counts, ({ keep, left, records, confirmed }) => {
      const census = { ...CENSUS, records };
      const verdict = brake(steps(keep, left), census, confirmed);
      if (verdict === undefined) expect(left).toBeLessThanOrEqual(Math.max(POLICY.mostObjects, confirmed));
      else {
        expect(verdict.left).toBe(left);
        expect(brake(steps(keep, left + 1), census, confirmed)).toBeDefined();
        expect(brake(steps(keep, left), census, left)).toBeUndefined();
      }
    }),
  );
});
