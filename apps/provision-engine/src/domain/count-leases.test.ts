import fc from "fast-check";
import { expect, it } from "vitest";
import { aLease } from "./a-lease.ts";
import { countLeases, sumHeldUnits } from "./count-leases.ts";
import type { LeaseRecord, Phase } from "./lease.ts";
import { GIB, MIB } from "./resource-units.ts";

const DATA: Readonly<Record<string, object>> = {
  network: { name: "net" },
  volume: { size: 1, type: "ssd" },
  zdb: { size: 2, mode: "user", disk_type: "hdd" },
  container: { image: "i", capacity: { cpu: 1, memory: 1024, disk_size: 512 } },
  kubernetes: { size: 1 },
  machine: { pool: "p", machines: 1 },
  debug: {},
};
const of = (type: string, changes: { phase?: Phase; user?: string; data?: object } = {}): LeaseRecord =>
  aLease({
    phase: changes.phase ?? "ACTIVE",
    order: { type, user: changes.user ?? "u", data: JSON.stringify(changes.data ?? DATA[type]) },
  });

it("counts active leases by what they are", () => {
  const records = Object.keys(DATA).map((type) => of(type));
  const one = { container: 1, volume: 1, network: 1, zdb: 1, vm: 1, debug: 1, machine: 1 };
  expect(countLeases(records)).toEqual(one);
  expect(countLeases([...records, of("public_ip", { data: {} })])).toEqual(one);
});

it("counts a network once, however many leases of its user name it", () => {
  const networks = [
    of("network"),
    of("network"),
    of("network", { user: "un", data: { name: "et" } }),
    of("network", { data: { name: "other" } }),
    of("network", { phase: "ENDED", data: { name: "gone" } }),
  ];
  expect(countLeases(networks).network).toBe(3);
});

it("adds up to the byte what leases take that are active, being made or being taken down", () => {
  const phases: Phase[] = ["ORDERED", "PROVISIONING", "ACTIVE", "DECOMMISSIONING", "ENDED", "FAILED"];
  const records = phases.map((phase) => of("container", { phase }));
  expect(sumHeldUnits(records, {})).toEqual({ cru: 3n, mru: 3n * GIB, hru: 0n, sru: 1536n * MIB });
  const largest = { size: 1_048_576, type: "ssd" };
  const many = Array.from({ length: 16 }, () => of("volume", { data: largest }));
  expect(sumHeldUnits([...many, of("volume")], {}).sru).toBe(2n ** 54n + GIB);
});

it("adds to each lease what its type takes by configuration, and to no other", () => {
  const overheads = { zdb: { cru: 1n, mru: GIB, hru: 0n, sru: 0n } };
  const records = [of("zdb"), of("zdb", { phase: "PROVISIONING" }), of("volume")];
  expect(sumHeldUnits(records, overheads)).toEqual({ cru: 2n, mru: 2n * GIB, hru: 4n * GIB, sru: GIB });
});

it("does not depend on the order of the records", () => {
  const records = fc.array(
    fc
      .constantFrom(...Object.keys(DATA))
      .chain((type) => fc.constantFrom<Phase>("ACTIVE", "PROVISIONING", "ENDED").map((phase) => of(type, { phase }))),
  );
  fc.assert(
    fc.property(records, (each) => {
      const reversed = each.toReversed();
      expect(countLeases(reversed)).toEqual(countLeases(each));
      expect(sumHeldUnits(reversed, {})).toEqual(sumHeldUnits(each, {}));
    }),
  );
});
