import type { Order } from "@muster/leases";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { makeLeaseRecord, makeOrder } from "../../test/a-lease.ts";
import { findCounter, sumHeldUnits, readClaim } from "../types/workload-types.ts";
import type { ProvisionCounters } from "../types/workload-type.ts";
import { isAlive, countPromisedBytes, recordBytes } from "../domain/decide-quota.ts";
import { isOverdue, isStuck } from "../domain/decide-retry.ts";
import { mayHoldResources, type LeaseRecord, type LeasePhase } from "../domain/lease.ts";
import { openLeaseRegistry } from "./lease-registry.ts";

const GIB = 2n ** 30n;
const dataOf = {
  volume: (size: number) => JSON.stringify({ size, type: "ssd" }),
  network: (name: string) => JSON.stringify({ name }),
  container: (network: string, volume: string) =>
    JSON.stringify({
      image: "i",
      capacity: { cpu: 1, memory: 1024 },
      network,
      mounts: [{ volume_id: volume, mountpoint: "/m" }],
    }),
};
const volume = (id: string) =>
  makeLeaseRecord({ phase: "ORDERED", order: { id, type: "volume", data: dataOf.volume(1) } });

it("counts a begun lease before its record shows it, and until the record shows the end", () => {
  const holdings = openLeaseRegistry({ sru: GIB }, {});
  const [first, second] = [volume("1-1"), volume("1-2")];
  const heldBeside = ({ order }: LeaseRecord): bigint => holdings.around(order).held.sru;
  holdings.learn({ record: first, revision: 1 });
  holdings.learn({ record: second, revision: 2 });
  expect(heldBeside(second)).toBe(0n);
  holdings.begin("1-1");
  expect([heldBeside(second), heldBeside(first)]).toEqual([GIB, 0n]);
  holdings.learn({ record: { ...first, phase: "ACTIVE" }, revision: 3 });
  // A late record is ignored, because a newer one is known.
  holdings.learn({ record: first, revision: 1 });
  expect(heldBeside(second)).toBe(GIB);
  expect(holdings.counters()).toMatchObject({ counters: { volume: 1 }, used: { sru: GIB } });
  holdings.learn({ record: { ...first, phase: "DECOMMISSIONING" }, revision: 4 });
  expect(holdings.counters()).toMatchObject({ counters: { volume: 0 }, used: { sru: GIB } });
  holdings.learn({ record: { ...first, phase: "ENDED" }, revision: 5 });
  expect(holdings.counters()).toMatchObject({ used: { sru: 0n } });
  expect(heldBeside(second)).toBe(0n);
  holdings.begin("1-2");
  expect(heldBeside(first)).toBe(GIB);
  holdings.forget("1-2");
  expect(heldBeside(first)).toBe(0n);
});

it("counts a write in flight until its record is known or the write has ended, and each lease once", () => {
  const holdings = openLeaseRegistry({}, {});
  const leases = (besides = ""): number => holdings.usageOf("user", besides).leases;
  const reserve = (id: string, revision: number) =>
    holdings.reserveUsage({ id, user: "user", revision, added: { leases: 1, bytes: 10 } });
  const [first, again, other] = [reserve("1-1", 0), reserve("1-1", 0), reserve("1-2", 0)];
  expect([leases(), leases("1-1"), leases("1-2")]).toEqual([2, 1, 1]);
  expect(holdings.usageOf("another", "")).toEqual({ leases: 0, bytes: 0 });
  holdings.learn({ record: volume("1-1"), revision: 1 });
  expect([leases(), leases("1-2")]).toEqual([2, 1]);
  first[Symbol.dispose]();
  again[Symbol.dispose]();
  other[Symbol.dispose]();
  expect(leases()).toBe(1);
  const failed = { record: { ...volume("1-1"), phase: "FAILED" as const }, revision: 2 };
  using _restart = reserve("1-1", 2);
  holdings.learn(failed);
  expect(leases()).toBe(1);
  holdings.learn({ record: volume("1-1"), revision: 3 });
  expect(leases()).toBe(1);
});

it("separates two orders that had the same id, one after the other", () => {
  const holdings = openLeaseRegistry({}, {});
  holdings.learn({ record: makeLeaseRecord({ order: { createdNs: 5n }, phase: "ENDED" }), revision: 5 });
  holdings.learn({ record: makeLeaseRecord({ order: { createdNs: 9n } }), revision: 9 });
  expect(holdings.seen("1-1")?.record.order.createdNs).toBe(9n);
});

it("always equals a scan of all leases: the sum, the named leases, and the users of each", () => {
  const id = fc.constantFrom("1-1", "1-2", "1-3", "1-4", "1-5");
  const name = fc.constantFrom("net", "other");
  const order = fc.oneof(
    fc.integer({ min: 1, max: 3 }).map((size) => ({ type: "volume", data: dataOf.volume(size) })),
    name.map((network) => ({ type: "network", data: dataOf.network(network) })),
    fc.tuple(name, id).map(([network, mounts]) => ({ type: "container", data: dataOf.container(network, mounts) })),
    fc.constant({ type: "container", data: "{" }),
  );
  const phase = fc.constantFrom<LeasePhase>("ORDERED", "PROVISIONING", "ACTIVE", "DECOMMISSIONING", "ENDED", "FAILED");
  const step = fc.oneof(
    fc.record({
      do: fc.constant("learn"),
      id,
      phase,
      order,
      user: fc.constantFrom("a", "b"),
      attempts: fc.nat({ max: 12 }),
    }),
    fc.record({ do: fc.constant("forget"), id }),
    fc.record({ do: fc.constant("begin"), id }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
      const holdings = openLeaseRegistry({}, {});
      const model = new Map<string, LeaseRecord>();
      const records = new Map<string, LeaseRecord>();
      let revision = 0;
      for (const each of steps) {
        const known = model.get(each.id);
        if (each.do === "learn") {
          const { attempts } = each;
          const record = makeLeaseRecord({
            phase: each.phase,
            attempts,
            order: { ...each.order, id: each.id, user: each.user },
          });
          holdings.learn({ record, revision: ++revision });
          model.set(each.id, record);
          records.set(each.id, record);
        } else if (each.do === "forget") {
          holdings.forget(each.id);
          model.delete(each.id);
          records.delete(each.id);
        } else if (known !== undefined) {
          holdings.begin(each.id);
          model.set(each.id, { ...known, phase: "PROVISIONING" });
        }
      }
      checkAround(holdings, model);
      checkSums(holdings, [...records.values()], [...model.values()]);
    }),
  );
});

function checkAround(holdings: ReturnType<typeof openLeaseRegistry>, model: ReadonlyMap<string, LeaseRecord>): void {
  const asked = [
    makeOrder({ id: "1-1", user: "a", type: "volume", data: dataOf.volume(1) }),
    makeOrder({ id: "9-2", user: "a", type: "network", data: dataOf.network("net") }),
    makeOrder({ id: "9-3", user: "a", type: "container", data: dataOf.container("other", "1-4") }),
  ];
  for (const order of asked) {
    const others = [...model.values()].filter((each) => each.order.id !== order.id);
    const own = others.filter((each) => each.order.user === "a");
    const found = holdings.around(order);
    expect(found.held).toEqual(sumHeldUnits(others, {}));
    const claim = readClaim(order);
    if (!claim.ok) throw new Error("the test's own order is wrong");
    const { network, needs } = claim.value;
    const ids = needs.volumes;
    const byId = own.filter((each) => ids.includes(each.order.id)).map((each) => each.order.id);
    expect(found.named.map((each) => each.id)).toEqual(expect.arrayContaining(byId));
    for (const name of network === undefined ? needs.networks : [network]) {
      const phases = own.filter((each) => isNetwork(each, name)).map((each) => each.phase);
      const named = own.filter((each) => isNetwork(each, name) && found.named.some(({ id }) => id === each.order.id));
      expect(new Set(named.map((each) => each.phase))).toEqual(new Set(phases));
    }
    const users = own.filter((each) => mayHoldResources(each.phase) && usesIt(each, order, network));
    expect(found.users.count).toBe(users.length);
    expect([...found.users.some].sort()).toEqual(users.map((each) => each.order.id).sort());
  }
}

/** Recomputes the counters from all records, while the holdings keep the share of each. */
function countLeases(records: readonly LeaseRecord[]): ProvisionCounters {
  const counted = records.map((record) => findCounter(record)).filter((each) => each !== undefined);
  const of = (counter: keyof ProvisionCounters): number => counted.filter((each) => each.counter === counter).length;
  const network = new Set(counted.flatMap((each) => each.network ?? [])).size;
  const [container, volume, zdb, vm] = [of("container"), of("volume"), of("zdb"), of("vm")];
  return { container, volume, network, zdb, vm, debug: of("debug"), machine: of("machine") };
}

function checkSums(
  holdings: ReturnType<typeof openLeaseRegistry>,
  records: readonly LeaseRecord[],
  begun: readonly LeaseRecord[],
): void {
  expect(holdings.counters()).toEqual({ counters: countLeases(records), used: sumHeldUnits(begun, {}) });
  for (const user of ["a", "b", "c"]) {
    const own = records.filter(({ order }) => order.user === user);
    const bytes = own.reduce((sum, each) => sum + recordBytes(each) + countPromisedBytes(each), 0);
    expect(holdings.usageOf(user, "")).toEqual({ leases: own.filter(isAlive).length, bytes });
  }
  expect(holdings.promised()).toBe(records.reduce((sum, each) => sum + countPromisedBytes(each), 0));
  for (const nowNs of [0n, 10n ** 15n]) {
    const { phases, stuck, overdue } = holdings.phases(nowNs);
    const byPhase = [...Map.groupBy(records, ({ phase }) => phase)].map(([phase, all]) => [phase, all.length] as const);
    expect(phases).toEqual(new Map(byPhase));
    expect(stuck).toBe(records.filter((each) => isStuck(each, nowNs)).length);
    expect(overdue).toBe(records.filter((each) => isOverdue(each, nowNs)).length);
  }
}

function isNetwork({ order, phase }: LeaseRecord, name: string): boolean {
  const claim = readClaim(order);
  return claim.ok && claim.value.network === name && phase !== "ENDED" && phase !== "FAILED";
}

function usesIt({ order }: LeaseRecord, used: Order, network: string | undefined): boolean {
  const claim = readClaim(order);
  if (!claim.ok) return false;
  const { networks, volumes } = claim.value.needs;
  return network === undefined ? volumes.includes(used.id) : networks.includes(network);
}

it("reads equally many leases of a user when many of them end as when few do", () => {
  const looksPerLease = (count: number): number => {
    let looks = 0;
    const counted = (order: Order): Order =>
      new Proxy(order, {
        get: (target, name, receiver): unknown => {
          looks += 1;
          return Reflect.get(target, name, receiver);
        },
      });
    const holdings = openLeaseRegistry({}, {});
    const records = Array.from({ length: count }, (_, at): LeaseRecord => {
      const [type, data] =
        at === 0
          ? ["network", dataOf.network("net")]
          : at % 2 === 0
            ? ["volume", dataOf.volume(1)]
            : ["container", dataOf.container("net", `1-${at + 1}`)];
      return { ...makeLeaseRecord(), order: counted(makeOrder({ id: `1-${at}`, type, data })) };
    });
    let revision = 0;
    for (const record of records) holdings.learn({ record, revision: ++revision });
    looks = 0;
    for (const record of records) {
      holdings.around(record.order);
      holdings.learn({ record: { ...record, phase: "DECOMMISSIONING" }, revision: ++revision });
    }
    for (const record of records.toReversed()) {
      holdings.around(record.order);
      holdings.learn({ record: { ...record, phase: "ENDED" }, revision: ++revision });
    }
    return looks / count;
  };
  expect(looksPerLease(400)).toBeLessThan(1.1 * looksPerLease(100));
});

describe("while one lease takes over the workload of another", () => {
  const data = dataOf.volume(1);
  const older = makeLeaseRecord({ order: { id: "1-1", type: "volume", data } });
  const order = { id: "2-1", type: "volume", data, reference: "1-1" };
  const claiming = makeLeaseRecord({ phase: "PROVISIONING", takesOver: "1-1", order });
  const handed: LeaseRecord = { ...older, phase: "ENDED", heir: "2-1" };
  const taken = makeLeaseRecord({ order, madeFor: { id: "1-1", run: 1 } });
  const other = makeOrder({ id: "9-9" });

  it("counts its resources once at any moment, whichever record is learnt first", () => {
    const holdings = openLeaseRegistry({}, {});
    const moments = [older, claiming, handed, taken, { ...taken, phase: "ENDED" as const }];
    const held = moments.map((record, at) => {
      holdings.learn({ record, revision: at + 1 });
      return holdings.around(other).held.sru;
    });
    expect(held).toEqual([GIB, GIB, GIB, GIB, 0n]);
    const late = openLeaseRegistry({}, {});
    late.learn({ record: claiming, revision: 2 });
    late.learn({ record: handed, revision: 3 });
    expect(late.around(other).held.sru).toBe(GIB);
  });

  it("protects a volume while it is mounted by any id that it has had", () => {
    const holdings = openLeaseRegistry({}, {});
    const last = { id: "3-1", type: "volume", data, reference: "2-1" };
    const mounting = (id: string, mounted: string) =>
      makeLeaseRecord({ order: { id, type: "container", data: dataOf.container("net", mounted) } });
    const line = [
      handed,
      { ...taken, phase: "ENDED" as const, heir: "3-1" },
      makeLeaseRecord({ order: last, madeFor: { id: "1-1", run: 1 } }),
    ];
    const all = [...line, mounting("5-1", "1-1"), mounting("5-2", "2-1"), mounting("5-3", "3-1")];
    for (const [at, record] of all.entries()) holdings.learn({ record, revision: at + 1 });
    expect(holdings.around(makeOrder(last)).users).toEqual({ some: ["5-3", "5-2", "5-1"], count: 3 });
    expect(["3-1", "1-1", "8-8"].map(holdings.nameOf)).toEqual(["1-1", "1-1", "8-8"]);
  });
});

it("returns counters and phases of many leases without reading any", () => {
  let looks = 0;
  const holdings = openLeaseRegistry({}, {});
  for (let at = 0; at < 100; at++) {
    const record = new Proxy(makeLeaseRecord({ order: { id: `1-${at}`, type: "volume", data: dataOf.volume(1) } }), {
      get: (target, name, receiver): unknown => {
        looks += 1;
        return Reflect.get(target, name, receiver);
      },
    });
    holdings.learn({ record, revision: at + 1 });
  }
  looks = 0;
  expect(holdings.counters()).toMatchObject({ counters: { volume: 100 }, used: { sru: 100n * GIB } });
  expect(holdings.phases(0n).phases).toEqual(new Map([["ACTIVE", 100]]));
  expect(looks).toBe(0);
});
