import fc from "fast-check";
import { expect, it } from "vitest";
import { decideAdmission, decideDecommission } from "./decide-admission.ts";
import type { LeasePhase } from "./lease.ts";
import { NO_UNITS, type ResourceUnits, type LeaseClaim, type NeighbourLease, type ClaimSurroundings } from "./claim.ts";
import { ALONE, withText } from "../../test/a-lease.ts";

const claim = (units: Partial<ResourceUnits> = {}, needs: Partial<LeaseClaim["needs"]> = {}): LeaseClaim => ({
  units: { ...NO_UNITS, ...units },
  network: undefined,
  needs: { networks: [], volumes: [], ...needs },
});
const decide = (wanted: LeaseClaim, around: Partial<ClaimSurroundings>) =>
  withText(decideAdmission(wanted, { ...ALONE, held: NO_UNITS, capacity: {}, ...around }));
const other = (phase: LeasePhase, changes: Partial<NeighbourLease>): NeighbourLease => {
  return { id: "1-2", type: "volume", phase, network: undefined, within: undefined, ...changes };
};
const volume = (phase: LeasePhase, changes: Partial<NeighbourLease> = {}) => other(phase, changes);
const network = (phase: LeasePhase, name = "net") =>
  other(phase, { id: `1-3.${phase}`, type: "network", network: name });

it("grants exactly the free capacity, and no byte more", () => {
  const holdings = { held: { ...NO_UNITS, mru: 3n }, capacity: { mru: 5n } };
  expect(decide(claim({ mru: 2n }), holdings)).toEqual({ kind: "yes", because: "the capacity suffices" });
  expect(decide(claim({ mru: 3n }), holdings)).toEqual({
    kind: "no",
    because: "not enough free resources to support this memory size: 3 of MRU needed, 2 free",
  });
});

it("counts the configured overhead of the type in addition to the order", () => {
  expect(decide(claim(), { capacity: { cru: 1n }, overhead: { ...NO_UNITS, cru: 2n } })).toMatchObject({
    kind: "no",
    because: expect.stringContaining("2 of CRU") as unknown,
  });
});

it("grants zero units without free capacity, and any units without a limit", () => {
  const held = { cru: 9n, mru: 9n, hru: 9n, sru: 9n };
  expect(decide(claim(), { held, capacity: NO_UNITS }).kind).toBe("yes");
  expect(decide(claim({ sru: 2n ** 60n }), { held, capacity: { mru: 0n } }).kind).toBe("yes");
});

it.each([
  ["cru", "processors"],
  ["mru", "memory"],
  ["hru", "HDD storage"],
  ["sru", "SSD storage"],
] as const)("names %s as short", (unit, word) => {
  expect(decide(claim({ [unit]: 1n }), { capacity: { [unit]: 0n } }).because).toBe(
    `not enough free resources to support this ${word} size: 1 of ${unit.toUpperCase()} needed, 0 free`,
  );
});

const LATER = { kind: "later", leases: ["1-2"] } as const;

it.each<[string, NeighbourLease[], object]>([
  ["an active volume", [volume("ACTIVE")], { kind: "yes", because: "the capacity suffices" }],
  ["a volume on its way", [volume("ORDERED")], { ...LATER, because: "volume 1-2 is being provisioned" }],
  ["a volume on its way", [volume("PROVISIONING")], { ...LATER, because: "volume 1-2 is being provisioned" }],
  [
    "a volume that is being removed",
    [volume("DECOMMISSIONING")],
    { kind: "no", because: "this user has no active volume 1-2; order it first" },
  ],
  ["no volume", [], { kind: "no", because: "this user has no active volume 1-2; order it first" }],
  [
    "a lease that is no volume",
    [volume("ACTIVE", { type: "zdb" })],
    { kind: "no", because: "this user has no active volume 1-2; order it first" },
  ],
])("%s is enough for a mount: %o", (_what, named, admission) => {
  expect(decide(claim({}, { volumes: ["1-2"] }), { named })).toEqual(admission);
});

it.each<[string, NeighbourLease[], object]>([
  ["an active network", [network("ACTIVE"), network("ORDERED")], { kind: "yes", because: "the capacity suffices" }],
  [
    "a network on its way",
    [network("PROVISIONING"), network("ORDERED"), network("DECOMMISSIONING")],
    { kind: "later", leases: ["1-3.PROVISIONING", "1-3.ORDERED"], because: "network net is being provisioned" },
  ],
  [
    "another network",
    [network("ACTIVE", "n")],
    { kind: "no", because: "this user has no active network net; order it first" },
  ],
])("%s is enough to join it: %o", (_what, named, admission) => {
  expect(decide(claim({}, { networks: ["net"] }), { named })).toEqual(admission);
});

it.each([
  ["of another name", [network("ACTIVE", "n")], "yes"],
  ["that is only ordered", [network("ORDERED")], "yes"],
  ["on its way", [network("PROVISIONING")], "no"],
  ["that is there", [network("DECOMMISSIONING"), network("ACTIVE")], "no"],
  ["that goes", [network("DECOMMISSIONING")], "later"],
] as const)("creates a network beside one %s: %o", (_what, named, admit) => {
  expect(decide({ ...claim(), network: "net" }, { named }).kind).toBe(admit);
});

it("mounts a volume only in its own network, or if neither has one", () => {
  const named = (within?: string) => ({ named: [network("ACTIVE"), volume("ACTIVE", { within })] });
  const mount = (...networks: string[]) => claim({}, { networks, volumes: ["1-2"] });
  expect(decide(mount("net"), named("net")).kind).toBe("yes");
  expect(decide(mount(), named("net")).because).toBe("volume 1-2 is in network net");
  expect(decide(mount("net"), named()).because).toBe("volume 1-2 is in no network");
});

it("refuses instead of waiting if something is permanently missing", () => {
  const wanted = claim({}, { networks: ["net"], volumes: ["1-2"] });
  expect(decide(wanted, { named: [volume("ORDERED")] }).kind).toBe("no");
});

it("never lets the held units exceed the capacity, and never refuses an order that fits", () => {
  const units = fc.record({
    cru: fc.bigInt({ min: 0n, max: 5n }),
    mru: fc.bigInt({ min: 0n, max: 5n }),
    hru: fc.bigInt({ min: 0n, max: 5n }),
    sru: fc.bigInt({ min: 0n, max: 5n }),
  });
  fc.assert(
    fc.property(units, units, units, (wanted, held, capacity) => {
      const fits = (["cru", "mru", "hru", "sru"] as const).every(
        (unit) => wanted[unit] === 0n || held[unit] + wanted[unit] <= capacity[unit],
      );
      expect(decide(claim(wanted), { held, capacity }).kind).toBe(fits ? "yes" : "no");
    }),
  );
});

it("releases a lease without users, and otherwise names some of its users", () => {
  const decide = (some: string[], count = some.length) => withText(decideDecommission({ users: { some, count } }));
  expect(decide([])).toEqual({ kind: "yes", because: "nothing uses it" });
  expect(decide(["1-3"])).toEqual({ kind: "later", lease: "1-3", because: "it is in use by 1-3" });
  const many = ["2-0", "2-1", "2-2", "2-3", "2-4"];
  expect(decide(many, 7).because).toBe("it is in use by 2-0, 2-1, 2-2, 2-3, 2-4 and 2 more");
});
