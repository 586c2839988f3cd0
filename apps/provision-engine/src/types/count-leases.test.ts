import fc from "fast-check";
import { expect, it } from "vitest";
import { aLease, DATA_BY_TYPE } from "../../test/a-lease.ts";
import { sumHeldUnits } from "./count-leases.ts";
import type { LeaseRecord, Phase } from "../domain/lease.ts";
import { GIB, MIB } from "../domain/resource-units.ts";

const of = (type: string, changes: { phase?: Phase; user?: string; data?: object } = {}): LeaseRecord =>
  aLease({
    phase: changes.phase ?? "ACTIVE",
    order: { type, user: changes.user ?? "u", data: JSON.stringify(changes.data ?? DATA_BY_TYPE[type]) },
  });

it("sums exactly the units of leases that are active, being created or being removed", () => {
  const phases: Phase[] = ["ORDERED", "PROVISIONING", "ACTIVE", "DECOMMISSIONING", "ENDED", "FAILED"];
  const records = phases.map((phase) => of("container", { phase }));
  expect(sumHeldUnits(records, {})).toEqual({ cru: 3n, mru: 3n * GIB, hru: 0n, sru: 1536n * MIB });
  const largest = { size: 1_048_576, type: "ssd" };
  const many = Array.from({ length: 16 }, () => of("volume", { data: largest }));
  expect(sumHeldUnits([...many, of("volume")], {}).sru).toBe(2n ** 54n + GIB);
});

it("adds the configured overhead of its type to each lease, and to no other", () => {
  const overheads = { zdb: { cru: 1n, mru: GIB, hru: 0n, sru: 0n } };
  const records = [of("zdb"), of("zdb", { phase: "PROVISIONING" }), of("volume")];
  expect(sumHeldUnits(records, overheads)).toEqual({ cru: 2n, mru: 2n * GIB, hru: 4n * GIB, sru: GIB });
});

it("does not depend on the order of the records", () => {
  const records = fc.array(
    fc
      .constantFrom(...Object.keys(DATA_BY_TYPE))
      .chain((type) => fc.constantFrom<Phase>("ACTIVE", "PROVISIONING", "ENDED").map((phase) => of(type, { phase }))),
  );
  fc.assert(
    fc.property(records, (each) => {
      const reversed = each.toReversed();
      expect(sumHeldUnits(reversed, {})).toEqual(sumHeldUnits(each, {}));
    }),
  );
});
