import { findCounter } from "../types/workload-types.ts";
import type { ProvisionCounters } from "../types/workload-type.ts";
import { isAlive, countPromisedBytes, recordBytes, type UserUsage } from "../domain/decide-quota.ts";
import { isDecommissionStuck, computeOverdueAfterNs } from "../domain/decide-retry.ts";
import type { LeaseRecord, LeasePhase } from "../domain/lease.ts";
import { ExpiryHeap } from "./expiry-heap.ts";

/** Totals over all leases. The share of each lease is kept, so that a change costs the work of one lease, and a query costs none. */
export type LeaseSums = {
  /** Replaces the share of the lease; undefined removes the lease. */
  set(id: string, record: LeaseRecord | undefined): void;
  counters(): ProvisionCounters;
  phases(nowNs: bigint): PhaseSums;
  usageOf(user: string): UserUsage;
  /** Maximum growth of all records that have no result yet, in bytes. */
  promised(): number;
};

type PhaseSums = {
  readonly phases: ReadonlyMap<LeasePhase, number>;
  /** Leases that cannot be removed, overdue ones included. */
  readonly stuck: number;
  readonly overdue: number;
};

type Part = {
  readonly phase: LeasePhase;
  readonly user: string;
  readonly usage: UserUsage;
  readonly promised: number;
  readonly isDecommissionStuck: boolean;
  readonly counted: ReturnType<typeof findCounter>;
};

const NONE: UserUsage = { leases: 0, bytes: 0 };

export function makeLeaseSums(): LeaseSums {
  const parts = new Map<string, Part>();
  const phases = new Map<LeasePhase, number>();
  const counters = new Map<string, number>();
  const networks = new Map<string, number>();
  const usages = new Map<string, UserUsage>();
  const ends = new ExpiryHeap();
  const overdue = new Set<string>();
  let [promised, stuckDecommissions] = [0, 0];
  const add = (part: Part, by: 1 | -1): void => {
    const { phase, user, usage, counted } = part;
    count(phases, phase, by);
    if (counted?.network !== undefined) count(networks, counted.network, by);
    else if (counted !== undefined) count(counters, counted.counter, by);
    const { leases, bytes } = usages.get(user) ?? NONE;
    const now = { leases: leases + by * usage.leases, bytes: bytes + by * usage.bytes };
    if (now.bytes === 0) usages.delete(user);
    else usages.set(user, now);
    promised += by * part.promised;
    if (part.isDecommissionStuck) stuckDecommissions += by;
  };
  return {
    set: (id, record) => {
      const before = parts.get(id);
      if (before !== undefined) add(before, -1);
      overdue.delete(id);
      const afterNs = record && computeOverdueAfterNs(record);
      if (afterNs === undefined) ends.delete(id);
      else ends.set(id, afterNs);
      if (record === undefined) {
        parts.delete(id);
        return;
      }
      const part = buildPart(record);
      parts.set(id, part);
      add(part, 1);
    },
    counters: () => {
      const of = (name: keyof ProvisionCounters): number => counters.get(name) ?? 0;
      const { size } = networks;
      const [container, volume, zdb, vm] = [of("container"), of("volume"), of("zdb"), of("vm")];
      return { container, volume, network: size, zdb, vm, debug: of("debug"), machine: of("machine") };
    },
    phases: (nowNs) => {
      for (const id of ends.takeExpired(nowNs)) overdue.add(id);
      return { phases: new Map(phases), stuck: stuckDecommissions + overdue.size, overdue: overdue.size };
    },
    usageOf: (user) => usages.get(user) ?? NONE,
    promised: () => promised,
  };
}

function buildPart(record: LeaseRecord): Part {
  const promised = countPromisedBytes(record);
  return {
    phase: record.phase,
    user: record.order.user,
    usage: { leases: isAlive(record) ? 1 : 0, bytes: recordBytes(record) + promised },
    promised,
    isDecommissionStuck: isDecommissionStuck(record),
    counted: findCounter(record),
  };
}

function count<Key>(counts: Map<Key, number>, key: Key, by: 1 | -1): void {
  const now = (counts.get(key) ?? 0) + by;
  if (now === 0) counts.delete(key);
  else counts.set(key, now);
}

export type UsageReservation = {
  readonly id: string;
  readonly user: string;
  /** Revision of the record that is being replaced; 0 for a new lease. */
  readonly revision: number;
  readonly added: UserUsage;
};

/** The usage that writes in flight add, so that concurrent orders of one user do not use the same free quota. */
type ReservedUsage = {
  /** The reservation counts until it is disposed or settled. Concurrent writes of one lease by one user count once, because at most one of them succeeds. */
  reserve(reservation: UsageReservation): Disposable;
  /** Reserved usage of a user, without the usage of this lease. */
  of(user: string, besides: string): UserUsage;
  /** Drops the reservations of the lease that replace revisions before this one, which is now known. */
  settle(id: string, revision: number): void;
};

type Reserved = {
  readonly id: string;
  readonly user: string;
  readonly added: UserUsage;
  revision: number;
  writes: number;
};

export function makeReservedUsage(): ReservedUsage {
  const byLease = new Map<string, readonly Reserved[]>();
  const sums = new Map<string, UserUsage>();
  const find = (id: string, user: string) => byLease.get(id)?.find((each) => each.user === user);
  const count = ({ user, added }: Reserved, by: 1 | -1): void => {
    const { leases, bytes } = sums.get(user) ?? NONE;
    const sum = { leases: leases + by * added.leases, bytes: bytes + by * added.bytes };
    if (sum.leases === 0) sums.delete(user);
    else sums.set(user, sum);
  };
  const add = ({ id, user, revision, added }: UsageReservation): Reserved => {
    const reserved = { id, user, revision, added, writes: 0 };
    byLease.set(id, [...(byLease.get(id) ?? []), reserved]);
    count(reserved, 1);
    return reserved;
  };
  const drop = (reserved: Reserved): void => {
    const all = byLease.get(reserved.id) ?? [];
    if (!all.includes(reserved)) return;
    if (all.length === 1) byLease.delete(reserved.id);
    else
      byLease.set(
        reserved.id,
        all.filter((each) => each !== reserved),
      );
    count(reserved, -1);
  };
  return {
    reserve: (reservation) => {
      const reserved = find(reservation.id, reservation.user) ?? add(reservation);
      reserved.revision = Math.max(reserved.revision, reservation.revision);
      reserved.writes += 1;
      return {
        [Symbol.dispose]: () => {
          reserved.writes -= 1;
          if (reserved.writes === 0) drop(reserved);
        },
      };
    },
    of: (user, besides) => {
      const all = sums.get(user) ?? NONE;
      const own = find(besides, user)?.added ?? NONE;
      return { leases: all.leases - own.leases, bytes: all.bytes - own.bytes };
    },
    settle: (id, revision) => {
      for (const reserved of byLease.get(id) ?? []) if (reserved.revision < revision) drop(reserved);
    },
  };
}
