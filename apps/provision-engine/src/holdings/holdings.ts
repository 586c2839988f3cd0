import type { Order } from "@muster/leases";
import { networkOf, sumHeldUnits, type Overheads } from "../types/count-leases.ts";
import type { ProvisionCounters } from "../types/workload-type.ts";
import type { Capacity, Neighbour, Surroundings } from "../domain/surroundings.ts";
import type { Usage } from "../domain/decide-quota.ts";
import { MAX_NAMED_USERS } from "../domain/decide-release.ts";
import { mayHoldResources, type LeaseRecord, type Phase } from "../domain/lease.ts";
import { addUnits, NO_UNITS, subtractUnits, type ResourceUnits } from "../domain/resource-units.ts";
import type { Claim } from "../domain/claim.ts";
import { readClaim } from "../types/workload-types.ts";
import { leaseIndex } from "./lease-index.ts";
import { leaseSums, type LeaseSums } from "./lease-sums.ts";
import { reservedUsage, type UsageReservation } from "./reserved-usage.ts";
import type { Stored } from "../lead/pass.ts";

/** What all leases of an engine hold, as far as this process knows. */
export type Holdings = Omit<LeaseSums, "set" | "usageOf" | "counters"> & {
  /** Active leases by what they are, and what leases hold or may hold: admission goes by the same sum. */
  counters(): { readonly counters: ProvisionCounters; readonly used: ResourceUnits };
  /** What a user has, and what writes under way will add to it, except those of this lease. */
  usageOf(user: string, besides: string): Usage;
  /** Counts what a write under way adds to the usage of its user, until it is disposed of or a later record of the lease is known. */
  reserveUsage(reservation: UsageReservation): Disposable;
  /** A record as it was read or written; an older one than is known says nothing. */
  learn(stored: Stored): void;
  /** A record as it is known here; it may be behind. */
  seen(id: string): Stored | undefined;
  forget(id: string): void;
  /** Counts a lease as begun until a later record of it says what has become of it: others are decided about before that is written. */
  begin(id: string): void;
  /** As it is known. */
  find(id: string): LeaseRecord | undefined;
  /** The lease that what this one has was made for first. */
  nameOf(id: string): string;
  /** What there is beside a lease. However many leases its user has, no more of them are looked at than are named. */
  around(order: Order): Surroundings;
};

export function openHoldings(capacity: Capacity, overheads: Overheads): Holdings {
  const known = new Map<string, Stored>();
  const index = leaseIndex();
  const { set: setSums, ...sums } = leaseSums();
  const reserved = reservedUsage();
  /** Begun, and not known to have been written; each with the revision that it was begun at. */
  const begun = new Map<string, number>();
  /** What each lease is held to take, and the sum of it. */
  const shares = new Map<string, ResourceUnits>();
  let held = NO_UNITS;
  const seen = ({ record: { order, phase } }: Stored): Pick<LeaseRecord, "order" | "phase"> => ({
    order,
    phase: begun.has(order.id) ? "PROVISIONING" : phase,
  });
  /** After whatever has changed of a lease: where it is found and its share follow from what is known of it, and the sum from the shares. */
  const count = (id: string): void => {
    const stored = known.get(id);
    setSums(id, stored?.record);
    const now = stored && seen(stored);
    index.set(id, now === undefined ? [] : keysOf(now));
    const share = now === undefined || isAwaiting(known, id) ? NO_UNITS : sumHeldUnits([now], overheads);
    const before = shares.get(id) ?? NO_UNITS;
    if (share !== NO_UNITS) shares.set(id, share);
    else shares.delete(id);
    if (share !== before) held = addUnits(subtractUnits(held, before), share);
  };
  const neighbour = (id: string, user: string): Neighbour[] => {
    const stored = known.get(id);
    return stored?.record.order.user === user ? [neighbourOf(seen(stored))] : [];
  };
  return {
    ...sums,
    counters: () => ({ counters: sums.counters(), used: held }),
    usageOf: (user, besides) => {
      const [has, adds] = [sums.usageOf(user), reserved.of(user, besides)];
      return { leases: has.leases + adds.leases, bytes: has.bytes + adds.bytes };
    },
    reserveUsage: reserved.reserve,
    learn: (stored) => {
      const { id } = stored.record.order;
      const before = known.get(id);
      // The same once more would only be kept twice: here, and by whoever else follows the leases.
      if (before !== undefined && stored.revision <= before.revision) return;
      known.set(id, before === undefined ? stored : withOrderOf(before, stored));
      reserved.settle(id, stored.revision);
      if (stored.revision > (begun.get(id) ?? 0)) begun.delete(id);
      count(id);
      if (stored.record.heir !== undefined) count(stored.record.heir);
    },
    seen: (id) => known.get(id),
    forget: (id) => {
      known.delete(id);
      begun.delete(id);
      count(id);
    },
    begin: (id) => {
      begun.set(id, known.get(id)?.revision ?? 0);
      count(id);
    },
    find: (id) => known.get(id)?.record,
    nameOf: (id) => known.get(id)?.record.madeFor?.id ?? id,
    around: (order) => {
      const claim = readClaim(order);
      const users = usersKeys(order, lineOf(known, order.id));
      return {
        capacity,
        overhead: overheads[order.type] ?? NO_UNITS,
        held: subtractUnits(held, shares.get(order.id) ?? NO_UNITS),
        named: claim.ok ? namesOf(index, order, claim.value).flatMap((each) => neighbour(each, order.user)) : [],
        users: {
          some: [...new Set(users.flatMap((key) => index.first(key, MAX_NAMED_USERS)))].slice(0, MAX_NAMED_USERS),
          count: users.reduce((sum, key) => sum + index.count(key), 0),
        },
      };
    },
  };
}

/** The leases that an order names, or that are the networks it names, beside itself. */
function namesOf(index: ReturnType<typeof leaseIndex>, { id, user }: Order, { needs, network }: Claim): string[] {
  const names = network === undefined ? needs.networks : [...needs.networks, network];
  const networks = names.flatMap((name) => networksOf(index, user, name, id));
  return [...new Set([...networks, ...needs.volumes])].filter((each) => each !== id);
}

/** Of each phase one lease that is the network, beside this one, which may be the first of them. */
function networksOf(index: ReturnType<typeof leaseIndex>, user: string, name: string, id: string): string[] {
  const others = (found: readonly string[]) => found.filter((each) => each !== id);
  return LIVE.flatMap((phase) => others(index.first(networkKey(user, name, phase), 2)).slice(0, 1));
}

type Known = ReadonlyMap<string, Stored>;

/** What it is to take over is still the other lease's share. */
function isAwaiting(known: Known, id: string): boolean {
  const takesOver = known.get(id)?.record.takesOver;
  return takesOver !== undefined && known.get(takesOver)?.record.heir !== id;
}

/** A lease and those whose workload it has, one after the other: others may know that by any of their ids. */
function lineOf(known: Known, id: string): string[] {
  const line = new Set([id]);
  for (let at = known.get(id)?.record; at?.madeFor !== undefined;) {
    const { reference } = at.order;
    if (reference === undefined || line.has(reference)) break;
    line.add(reference);
    at = known.get(reference)?.record;
  }
  return [...line];
}

/** In which a network may be there, or be on its way. */
const LIVE = ["ACTIVE", "PROVISIONING", "ORDERED", "DECOMMISSIONING"] as const satisfies readonly Phase[];

function networkKey(user: string, name: string, phase: Phase): string {
  return JSON.stringify(["network", user, name, phase]);
}

/** What those have that live in a network, or may mount a volume by any of the ids that it has had. */
function usersKeys({ user, ...order }: Order, line: readonly string[]): string[] {
  const network = networkOf({ user, ...order });
  return network === undefined ? line.map((id) => mountKey(user, id)) : [withinKey(user, network)];
}

function withinKey(user: string, network: string): string {
  return JSON.stringify(["within", user, network]);
}

function mountKey(user: string, volume: string): string {
  return JSON.stringify(["mounts", user, volume]);
}

function keysOf({ order, phase }: Pick<LeaseRecord, "order" | "phase">): string[] {
  const claim = phase === "ENDED" || phase === "FAILED" ? undefined : readClaim(order);
  if (claim?.ok !== true) return [];
  const { network, needs } = claim.value;
  const { id, user } = order;
  const own = network === undefined ? [] : [networkKey(user, network, phase)];
  if (!mayHoldResources(phase)) return own;
  const within = needs.networks.map((name) => withinKey(user, name));
  // Whoever orders to mount itself is refused, and never in its own way.
  const mounts = needs.volumes.flatMap((each) => (each === id ? [] : mountKey(user, each)));
  return [...own, ...within, ...mounts];
}

function neighbourOf({ order, phase }: Pick<LeaseRecord, "order" | "phase">): Neighbour {
  const claim = readClaim(order);
  const { id, type } = order;
  if (!claim.ok) return { id, type, phase, network: undefined, within: undefined };
  return { id, type, phase, network: claim.value.network, within: claim.value.needs.networks[0] };
}

/** Hardly ever is it another order under the same id, whose record was gone before: the object that is known already has been read. */
function withOrderOf({ record: { order } }: Stored, { record, revision }: Stored): Stored {
  return isSameOrder(order, record.order) ? { record: { ...record, order }, revision } : { record, revision };
}

function isSameOrder(a: Order, b: Order): boolean {
  if (a.user !== b.user || a.type !== b.type || a.data !== b.data) return false;
  return a.createdNs === b.createdNs && Buffer.compare(a.signature, b.signature) === 0;
}
