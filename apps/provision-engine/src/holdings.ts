import type { Order } from "@muster/leases";
import {
  countLeases,
  networkOf,
  sumActiveUnits,
  sumHeldUnits,
  type Overheads,
  type ProvisionCounters,
} from "./domain/count-leases.ts";
import type { Capacity } from "./domain/decide-admission.ts";
import { NAMED_MOST } from "./domain/decide-release.ts";
import { isOverdue, isStuck } from "./domain/decide-stuck.ts";
import { mayHold, type LeaseRecord, type Phase } from "./domain/lease.ts";
import { addUnits, NO_UNITS, subtractUnits, type ResourceUnits } from "./domain/resource-units.ts";
import type { Neighbour, Surroundings } from "./domain/surroundings.ts";
import type { Claim } from "./domain/workload-type.ts";
import { readClaim } from "./domain/workload-types.ts";
import { leaseIndex } from "./lease-index.ts";
import type { Stored } from "./pass.ts";

/** What all leases of an engine hold, as far as this process knows. */
export type Holdings = {
  /** A record as it was read or written; an older one than is known says nothing. */
  learn(stored: Stored): void;
  forget(id: string): void;
  /** Counts a lease as begun until a later record of it says what has become of it: others are decided about before that is written. */
  begin(id: string): void;
  /** What there is beside a lease. However many leases its user has, no more of them are looked at than are named. */
  around(order: Order): Surroundings;
  /** How many leases are in each phase, how many of them cannot be taken down, and how many of these nobody could even begin to. */
  phases(nowNs: bigint): {
    readonly phases: ReadonlyMap<Phase, number>;
    readonly stuck: number;
    readonly overdue: number;
  };
  counters(): { readonly counters: ProvisionCounters; readonly used: ResourceUnits };
};

export function openHoldings(capacity: Capacity, overheads: Overheads): Holdings {
  const known = new Map<string, Stored>();
  const index = leaseIndex();
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
    const now = stored && seen(stored);
    index.set(id, now === undefined ? [] : keysOf(now));
    const share = now === undefined ? NO_UNITS : sumHeldUnits([now], overheads);
    const before = shares.get(id) ?? NO_UNITS;
    if (share !== NO_UNITS) shares.set(id, share);
    else shares.delete(id);
    if (share !== before) held = addUnits(subtractUnits(held, before), share);
  };
  const namedBy = ({ id, user, reference }: Order, { needs, network }: Claim): Neighbour[] => {
    const names = network === undefined ? needs.networks : [...needs.networks, network];
    const networks = names.flatMap((name) =>
      // Itself may be the first of them.
      LIVE.flatMap((phase) =>
        index
          .some(networkKey(user, name, phase), 2)
          .filter((each) => each !== id)
          .slice(0, 1),
      ),
    );
    const ids = new Set([...networks, ...needs.volumes, ...(reference === undefined ? [] : [reference])]);
    return [...ids].flatMap((each) => {
      const stored = known.get(each);
      return each !== id && stored?.record.order.user === user ? [neighbourOf(seen(stored))] : [];
    });
  };
  const records = () => [...known.values()].map(({ record }) => record);
  return {
    learn: (stored) => {
      const { id } = stored.record.order;
      const before = known.get(id);
      if (stored.revision < (before?.revision ?? 0)) return;
      known.set(id, before === undefined ? stored : withOrderOf(before, stored));
      if (stored.revision > (begun.get(id) ?? 0)) begun.delete(id);
      count(id);
    },
    forget: (id) => {
      known.delete(id);
      begun.delete(id);
      count(id);
    },
    begin: (id) => {
      begun.set(id, known.get(id)?.revision ?? 0);
      count(id);
    },
    around: (order) => {
      const claim = readClaim(order);
      const users = usersKey(order);
      return {
        capacity,
        overhead: overheads[order.type] ?? NO_UNITS,
        held: subtractUnits(held, shares.get(order.id) ?? NO_UNITS),
        named: claim.ok ? namedBy(order, claim.value) : [],
        users: { some: index.some(users, NAMED_MOST), count: index.count(users) },
      };
    },
    phases: (nowNs) => {
      const phases = new Map<Phase, number>();
      let [stuck, overdue] = [0, 0];
      for (const { record } of known.values()) {
        phases.set(record.phase, (phases.get(record.phase) ?? 0) + 1);
        if (isStuck(record, nowNs)) stuck += 1;
        if (isOverdue(record, nowNs)) overdue += 1;
      }
      return { phases, stuck, overdue };
    },
    counters: () => ({ counters: countLeases(records()), used: sumActiveUnits(records(), overheads) }),
  };
}

/** In which a network may be there, or be on its way. */
const LIVE = ["ACTIVE", "PROVISIONING", "ORDERED", "DECOMMISSIONING"] as const satisfies readonly Phase[];

function networkKey(user: string, name: string, phase: Phase): string {
  return JSON.stringify(["network", user, name, phase]);
}

/** What those have that live in a network, or may mount a volume. */
function usersKey(order: Order): string {
  const network = networkOf(order);
  return network === undefined ? mountKey(order.user, order.id) : withinKey(order.user, network);
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
  if (!mayHold(phase)) return own;
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

/** An order never changes under its id: the object that is known already has been read. */
function withOrderOf({ record: { order } }: Stored, { record, revision }: Stored): Stored {
  const isSame =
    order.user === record.order.user && order.type === record.order.type && order.data === record.order.data;
  return isSame ? { record: { ...record, order }, revision } : { record, revision };
}
