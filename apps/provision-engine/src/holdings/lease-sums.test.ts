import { expect, it } from "vitest";
import { makeLeaseRecord, DATA_BY_TYPE } from "../../test/a-lease.ts";
import type { LeasePhase } from "../domain/lease.ts";
import { makeLeaseSums } from "./lease-sums.ts";

type Lease = { readonly type: string; readonly phase?: LeasePhase; readonly user?: string; readonly data?: object };

function countersOf(leases: readonly Lease[]) {
  const sums = makeLeaseSums();
  leases.forEach(({ type, phase = "ACTIVE", user = "u", data = DATA_BY_TYPE[type] }, index) => {
    const id = `1-${index}`;
    sums.set(id, makeLeaseRecord({ phase, order: { id, type, user, data: JSON.stringify(data) } }));
  });
  return sums.counters();
}

it("counts active leases by type", () => {
  const leases = Object.keys(DATA_BY_TYPE).map((type) => ({ type }));
  const one = { container: 1, volume: 1, network: 1, zdb: 1, vm: 1, debug: 1, machine: 1 };
  expect(countersOf(leases)).toEqual(one);
  expect(countersOf([...leases, { type: "public_ip", data: {} }])).toEqual(one);
});

it("counts a network once, however many leases of its user name it", () => {
  const type = "network";
  const { network } = countersOf([
    { type },
    { type },
    { type, user: "un", data: { name: "et" } },
    { type, data: { name: "other" } },
    { type, phase: "ENDED", data: { name: "gone" } },
  ]);
  expect(network).toBe(3);
});
