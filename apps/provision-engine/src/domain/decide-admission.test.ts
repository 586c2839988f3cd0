import type { Order } from "@muster/leases";
import fc from "fast-check";
import { expect, it } from "vitest";
import { aLease, anOrder } from "./a-lease.ts";
import { decideAdmission, type Admission, type Holdings } from "./decide-admission.ts";
import type { Phase } from "./lease.ts";
import { NO_UNITS, type ResourceUnits } from "./resource-units.ts";
import type { Claim } from "./workload-type.ts";

const claim = (units: Partial<ResourceUnits> = {}, needs: Partial<Claim["needs"]> = {}): Claim => ({
  units: { ...NO_UNITS, ...units },
  network: undefined,
  needs: { networks: [], volumes: [], ...needs },
});
const decide = (wanted: Claim, holdings: Partial<Holdings>): Admission =>
  decideAdmission(anOrder(), wanted, { held: NO_UNITS, capacity: {}, ofUser: [], ...holdings });
const other = (phase: Phase, order: Partial<Order>) => aLease({ phase, order });
const volume = (phase: Phase, order: Partial<Order> = {}) =>
  other(phase, { id: "1-2", type: "volume", data: '{"size":1,"type":"ssd"}', ...order });
const network = (phase: Phase, order: Partial<Order> = {}) =>
  other(phase, { id: "1-3", type: "network", data: '{"name":"net"}', ...order });

it("gives exactly what is free, and no byte more", () => {
  const holdings = { held: { ...NO_UNITS, mru: 3n }, capacity: { mru: 5n } };
  expect(decide(claim({ mru: 2n }), holdings)).toEqual({ admit: "yes", because: "what it takes is free" });
  expect(decide(claim({ mru: 3n }), holdings)).toEqual({
    admit: "no",
    because: "not enough free resources to support this memory size: 3 of MRU needed, 2 free",
  });
});

it("gives what takes nothing also where nothing is free, and anything where there is no limit", () => {
  const held = { cru: 9n, mru: 9n, hru: 9n, sru: 9n };
  expect(decide(claim(), { held, capacity: NO_UNITS }).admit).toBe("yes");
  expect(decide(claim({ sru: 2n ** 60n }), { held, capacity: { mru: 0n } }).admit).toBe("yes");
});

it.each([
  ["cru", "processors"],
  ["mru", "memory"],
  ["hru", "HDD storage"],
  ["sru", "SSD storage"],
] as const)("says that %s is short", (unit, word) => {
  expect(decide(claim({ [unit]: 1n }), { capacity: { [unit]: 0n } }).because).toBe(
    `not enough free resources to support this ${word} size: 1 of ${unit.toUpperCase()} needed, 0 free`,
  );
});

it.each([
  ["a volume that is there", [volume("ACTIVE")], "yes", "what it takes is free"],
  ["a volume on its way", [volume("ORDERED")], "later", "volume 1-2 is being provisioned"],
  ["a volume on its way", [volume("PROVISIONING")], "later", "volume 1-2 is being provisioned"],
  ["a volume that goes", [volume("DECOMMISSIONING")], "no", "this user has no active volume 1-2"],
  ["no volume", [], "no", "this user has no active volume 1-2"],
  ["another user's volume", [volume("ACTIVE", { user: "other" })], "no", "this user has no active volume 1-2"],
  ["a volume that is none", [volume("ACTIVE", { type: "zdb" })], "no", "this user has no active volume 1-2"],
] as const)("%s is enough for a mount: %o", (_what, ofUser, admit, because) => {
  expect(decide(claim({}, { volumes: ["1-2"] }), { ofUser })).toEqual({ admit, because });
});

it.each([
  ["a network that is there", [network("ENDED"), network("ACTIVE")], "yes", "what it takes is free"],
  ["a network on its way", [network("PROVISIONING")], "later", "network net is being provisioned"],
  [
    "a network of another name",
    [network("ACTIVE", { data: '{"name":"n"}' })],
    "no",
    "this user has no active network net",
  ],
  ["another user's network", [network("ACTIVE", { user: "other" })], "no", "this user has no active network net"],
] as const)("%s is enough to join it: %o", (_what, ofUser, admit, because) => {
  expect(decide(claim({}, { networks: ["net"] }), { ofUser })).toEqual({ admit, because });
});

it.each([
  ["another user's", [network("ACTIVE", { user: "other" })], "yes"],
  ["of another name", [network("ACTIVE", { data: '{"name":"n"}' })], "yes"],
  ["that is over", [network("ENDED"), network("FAILED")], "yes"],
  ["that is only ordered", [network("ORDERED")], "yes"],
  ["on its way", [network("PROVISIONING")], "no"],
  ["that is there", [network("ACTIVE"), network("DECOMMISSIONING")], "no"],
  ["that goes", [network("DECOMMISSIONING")], "later"],
] as const)("makes a network beside one %s: %o", (_what, ofUser, admit) => {
  expect(decide({ ...claim(), network: "net" }, { ofUser }).admit).toBe(admit);
});

it("mounts a volume only in its own network, or where neither has one", () => {
  const inside = volume("ACTIVE", { data: '{"size":1,"type":"ssd","network":"net"}' });
  const ofUser = (...volumes: ReturnType<typeof volume>[]) => ({ ofUser: [network("ACTIVE"), ...volumes] });
  const mount = (...networks: string[]) => claim({}, { networks, volumes: ["1-2"] });
  expect(decide(mount("net"), ofUser(inside)).admit).toBe("yes");
  expect(decide(mount(), ofUser(inside)).because).toBe("volume 1-2 is in network net");
  expect(decide(mount("net"), ofUser(volume("ACTIVE"))).because).toBe("volume 1-2 is in no network");
});

it("refuses rather than waits where something is missing for good", () => {
  const wanted = claim({}, { networks: ["net"], volumes: ["1-2"] });
  expect(decide(wanted, { ofUser: [volume("ORDERED")] }).admit).toBe("no");
});

it("never lets what is held exceed the capacity, and never refuses what fits", () => {
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
      expect(decide(claim(wanted), { held, capacity }).admit).toBe(fits ? "yes" : "no");
    }),
  );
});

it.each<[Phase, Admission["admit"]]>([
  ["ORDERED", "no"],
  ["PROVISIONING", "no"],
  ["ACTIVE", "no"],
  ["DECOMMISSIONING", "no"],
  ["ENDED", "yes"],
  ["FAILED", "yes"],
])("an order that refers to a lease that is %s is admitted: %s", (phase, admit) => {
  const order = anOrder({ id: "2-1", reference: "1-2" });
  const holdings = { held: NO_UNITS, capacity: {}, ofUser: [volume(phase)] };
  expect(decideAdmission(order, claim(), holdings).admit).toBe(admit);
  const strangers = { ...holdings, ofUser: [volume(phase, { user: "another" })] };
  expect(decideAdmission(order, claim(), strangers).admit).toBe("yes");
});
