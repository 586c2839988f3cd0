import type { Order } from "@muster/leases";
import type { View } from "@muster/store";
import { findNetworkName, sumHeldUnits, type TypeOverheads, readClaim } from "../types/workload-types.ts";
import type { ProvisionCounters } from "../types/workload-type.ts";
import {
  type EngineCapacity,
  type NeighbourLease,
  type ClaimSurroundings,
  addUnits,
  NO_UNITS,
  subtractUnits,
  type ResourceUnits,
  type LeaseClaim,
} from "../domain/claim.ts";
import type { UserUsage } from "../domain/decide-quota.ts";
import { MAX_NAMED_USERS } from "../domain/decide-admission.ts";
import { mayHoldResources, type LeaseRecord, type LeasePhase } from "../domain/lease.ts";
import { makeLeaseSums, type LeaseSums, makeReservedUsage, type UsageReservation } from "./lease-sums.ts";
import type { StoredLease, StoredValue } from "./records.ts";

/** The leases of an engine and their resources, as far as this process knows. */
export type LeaseRegistry = Omit<LeaseSums, "set" | "usageOf" | "counters"> & {
  /** Active leases by type, and the resources that leases hold or may hold, as admission counts them. */
  counters(): { readonly counters: ProvisionCounters; readonly used: ResourceUnits };
  /** Usage of a user, including writes in flight except the writes of this lease. */
  usageOf(user: string, besides: string): UserUsage;
  /** Adds a write in flight to the usage of its user, until it is disposed or a later record of the lease is known. */
  reserveUsage(reservation: UsageReservation): Disposable;
  /** Stores a record that was read or written; a record older than the known one has no effect. */
  learn(stored: StoredLease): void;
  /** The known record, which may be outdated. */
  seen(id: string): StoredLease | undefined;
  forget(id: string): void;
  /** Counts a lease as begun before its record is written, because other leases are decided before that write ends. */
  begin(id: string): void;
  /** Increases with each change. */
  revision(): number;
  /** The known record. */
  find(id: string): LeaseRecord | undefined;
  /** Id of the lease for which the workload of this one was first created. */
  nameOf(id: string): string;
  /** The surroundings of a lease. Reads only the leases that the order names, however many its user has. */
  around(order: Order): ClaimSurroundings;
};

export function openLeaseRegistry(capacity: EngineCapacity, overheads: TypeOverheads): LeaseRegistry {
  const known = new Map<string, StoredLease>();
  const index = leaseIndex();
  const { set: setSums, ...sums } = makeLeaseSums();
  const reserved = makeReservedUsage();
  /** Begun leases whose write is not known yet, each with its revision when it was begun. */
  const begun = new Map<string, number>();
  const held = heldUnits();
  let revision = 0;
  const seen = ({ record: { order, phase } }: StoredLease): Pick<LeaseRecord, "order" | "phase"> => ({
    order,
    phase: begun.has(order.id) ? "PROVISIONING" : phase,
  });
  /** Recounts a lease after a change: its index keys and share follow from its record, and the sum from the shares. */
  const count = (id: string): void => {
    revision += 1;
    const stored = known.get(id);
    setSums(id, stored?.record);
    const now = stored && seen(stored);
    index.set(id, now === undefined ? [] : buildKeys(now));
    held.set(id, now === undefined || isAwaiting(known, id) ? NO_UNITS : sumHeldUnits([now], overheads));
  };
  const neighbour = (id: string, user: string): NeighbourLease[] => {
    const stored = known.get(id);
    return stored?.record.order.user === user ? [toNeighbour(seen(stored))] : [];
  };
  return {
    ...sums,
    counters: () => ({ counters: sums.counters(), used: held.sum() }),
    usageOf: (user, besides) => {
      const [has, adds] = [sums.usageOf(user), reserved.of(user, besides)];
      return { leases: has.leases + adds.leases, bytes: has.bytes + adds.bytes };
    },
    reserveUsage: reserved.reserve,
    learn: (stored) => {
      const { id } = stored.record.order;
      const before = known.get(id);
      // The known object is kept: the view holds the same one, and a second copy would cost memory.
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
    revision: () => revision,
    find: (id) => known.get(id)?.record,
    nameOf: (id) => known.get(id)?.record.madeFor?.id ?? id,
    around: (order) => {
      const claim = readClaim(order);
      return {
        capacity,
        overhead: overheads[order.type] ?? NO_UNITS,
        held: subtractUnits(held.sum(), held.of(order.id)),
        named: claim.ok ? listNames(index, order, claim.value).flatMap((each) => neighbour(each, order.user)) : [],
        users: usersAmong(index, usersKeys(order, listLine(known, order.id))),
      };
    },
  };
}

/** The counted resources of each lease, and their sum. */
function heldUnits() {
  const shares = new Map<string, ResourceUnits>();
  let sum = NO_UNITS;
  const of = (id: string): ResourceUnits => shares.get(id) ?? NO_UNITS;
  return {
    of,
    sum: () => sum,
    set: (id: string, share: ResourceUnits): void => {
      const before = of(id);
      if (share !== NO_UNITS) shares.set(id, share);
      else shares.delete(id);
      if (share !== before) sum = addUnits(subtractUnits(sum, before), share);
    },
  };
}

/** Lists other leases that an order names, or that are networks named by it. */
function listNames(
  index: ReturnType<typeof leaseIndex>,
  { id, user }: Order,
  { needs, network }: LeaseClaim,
): string[] {
  const names = network === undefined ? needs.networks : [...needs.networks, network];
  const networks = names.flatMap((name) => listNetworks(index, user, name, id));
  return [...new Set([...networks, ...needs.volumes])].filter((each) => each !== id);
}

/** For each phase, lists one other lease that is this network. */
function listNetworks(index: ReturnType<typeof leaseIndex>, user: string, name: string, id: string): string[] {
  const others = (found: readonly string[]) => found.filter((each) => each !== id);
  return LIVE.flatMap((phase) => others(index.first(networkKey(user, name, phase), 2)).slice(0, 1));
}

type Known = ReadonlyMap<string, StoredLease>;

/** Whether the workload that this lease takes over still counts for the other lease. */
function isAwaiting(known: Known, id: string): boolean {
  const takesOver = known.get(id)?.record.takesOver;
  return takesOver !== undefined && known.get(takesOver)?.record.heir !== id;
}

/** Lists a lease and the leases whose workload it has taken over, because others may refer to any of these ids. */
function listLine(known: Known, id: string): string[] {
  const line = new Set([id]);
  for (let at = known.get(id)?.record; at?.madeFor !== undefined;) {
    const { reference } = at.order;
    if (reference === undefined || line.has(reference)) break;
    line.add(reference);
    at = known.get(reference)?.record;
  }
  return [...line];
}

/** Phases in which a network exists or may exist soon. */
const LIVE = ["ACTIVE", "PROVISIONING", "ORDERED", "DECOMMISSIONING"] as const satisfies readonly LeasePhase[];

function networkKey(user: string, name: string, phase: LeasePhase): string {
  return JSON.stringify(["network", user, name, phase]);
}

/** Builds index keys of the leases that use a network, or mount a volume by any of its ids. */
function usersKeys({ user, ...order }: Order, line: readonly string[]): string[] {
  const network = findNetworkName({ user, ...order });
  return network === undefined ? line.map((id) => mountKey(user, id)) : [withinKey(user, network)];
}

function withinKey(user: string, network: string): string {
  return JSON.stringify(["within", user, network]);
}

function mountKey(user: string, volume: string): string {
  return JSON.stringify(["mounts", user, volume]);
}

function buildKeys({ order, phase }: Pick<LeaseRecord, "order" | "phase">): string[] {
  const claim = phase === "ENDED" || phase === "FAILED" ? undefined : readClaim(order);
  if (claim?.ok !== true) return [];
  const { network, needs } = claim.value;
  const { id, user } = order;
  const own = network === undefined ? [] : [networkKey(user, network, phase)];
  if (!mayHoldResources(phase)) return own;
  const within = needs.networks.map((name) => withinKey(user, name));
  // An order that mounts itself is refused, and must not block its own removal.
  const mounts = needs.volumes.flatMap((each) => (each === id ? [] : mountKey(user, each)));
  return [...own, ...within, ...mounts];
}

function toNeighbour({ order, phase }: Pick<LeaseRecord, "order" | "phase">): NeighbourLease {
  const claim = readClaim(order);
  const { id, type } = order;
  if (!claim.ok) return { id, type, phase, network: undefined, within: undefined };
  return { id, type, phase, network: claim.value.network, within: claim.value.needs.networks[0] };
}

/** Shares the order object that is already known and parsed. The order differs only if an id is reused after its record was removed. */
function withOrderOf({ record: { order } }: StoredLease, { record, revision }: StoredLease): StoredLease {
  return isSameOrder(order, record.order) ? { record: { ...record, order }, revision } : { record, revision };
}

function isSameOrder(a: Order, b: Order): boolean {
  if (a.user !== b.user || a.type !== b.type || a.data !== b.data) return false;
  return a.createdNs === b.createdNs && Buffer.compare(a.signature, b.signature) === 0;
}

/** Keeps the holdings up to date with all leases of the engine. Returns the function that stops the updates. */
export function followLeases(
  view: Pick<View<StoredValue>, "entries" | "get" | "onChange">,
  holdings: Pick<LeaseRegistry, "learn" | "forget">,
  engine: string,
): () => void {
  const update = (id: string, entry: ReturnType<typeof view.get>): void => {
    if (entry === undefined) holdings.forget(id);
    else if ("record" in entry.value && entry.value.record.order.engine === engine)
      holdings.learn({ record: entry.value.record, revision: entry.revision });
  };
  for (const entry of view.entries()) update(entry.key, entry);
  return view.onChange((id) => update(id, view.get(id)));
}

/** An index of leases by any number of keys. */
type LeaseIndex = {
  /** Replaces the keys of the lease. */
  set(id: string, keys: readonly string[]): void;
  /** The first leases with the key, at most `max`, in the order of their arrival. */
  first(key: string, max: number): string[];
  count(key: string): number;
};

function leaseIndex(): LeaseIndex {
  const keysOf = new Map<string, readonly string[]>();
  const idsOf = new Map<string, Set<string>>();
  return {
    set: (id, keys) => {
      const before = keysOf.get(id) ?? [];
      for (const key of before) {
        if (keys.includes(key)) continue;
        const ids = idsOf.get(key);
        ids?.delete(id);
        if (ids?.size === 0) idsOf.delete(key);
      }
      for (const key of keys) idsOf.set(key, (idsOf.get(key) ?? new Set<string>()).add(id));
      if (keys.length === 0) keysOf.delete(id);
      else keysOf.set(id, keys);
    },
    first: (key, max) => {
      const found: string[] = [];
      for (const id of idsOf.get(key) ?? []) {
        if (found.length >= max) break;
        found.push(id);
      }
      return found;
    },
    count: (key) => idsOf.get(key)?.size ?? 0,
  };
}

/** The leases that use one of these keys: some of them, and their number. */
function usersAmong(index: ReturnType<typeof leaseIndex>, keys: readonly string[]): ClaimSurroundings["users"] {
  return {
    some: [...new Set(keys.flatMap((key) => index.first(key, MAX_NAMED_USERS)))].slice(0, MAX_NAMED_USERS),
    count: keys.reduce((sum, key) => sum + index.count(key), 0),
  };
}
