import type { Order } from "@muster/leases";
import { countLeases, sumActiveUnits, sumHeldUnits, type ProvisionCounters } from "./domain/count-leases.ts";
import { decideAdmission, type Admission, type Capacity } from "./domain/decide-admission.ts";
import { decideRelease, type Release } from "./domain/decide-release.ts";
import { isStuck } from "./domain/decide-stuck.ts";
import type { LeaseRecord, Phase } from "./domain/lease.ts";
import { addUnits, NO_UNITS, subtractUnits, type ResourceUnits } from "./domain/resource-units.ts";
import type { Claim } from "./domain/workload-type.ts";
import type { Stored } from "./pass.ts";

/** What all leases of an engine hold, as far as this process knows. */
export type Holdings = {
  /** A record as it was read or written; an older one than is known says nothing. */
  learn(stored: Stored): void;
  forget(id: string): void;
  /** Counts what it admits until a later record of the lease says what has become of it. */
  admit(order: Order, claim: Claim): Admission;
  /** As `admit`, and changes nothing. */
  explain(order: Order, claim: Claim): Admission;
  /** How many leases are in each phase, and how many of them cannot be taken down. */
  phases(): { readonly phases: ReadonlyMap<Phase, number>; readonly stuck: number };
  /** Whether nothing needs what an order has any more. */
  release(order: Order): Release;
  counters(): { readonly counters: ProvisionCounters; readonly used: ResourceUnits };
};

export function openHoldings(capacity: Capacity): Holdings {
  const known = new Map<string, Stored>();
  const byUser = new Map<string, Set<string>>();
  /** Admitted, and not known to have been written; each with the revision that it was admitted at. */
  const admitted = new Map<string, number>();
  /** What each lease is held to take, and the sum of it. */
  const shares = new Map<string, ResourceUnits>();
  let held = NO_UNITS;
  const seen = ({ record: { order, phase } }: Stored): Pick<LeaseRecord, "order" | "phase"> => ({
    order,
    phase: admitted.has(order.id) ? "PROVISIONING" : phase,
  });
  /** After whatever has changed of a lease: its share follows from what is known of it, and the sum from the shares. */
  const count = (id: string): void => {
    const stored = known.get(id);
    const share = stored === undefined ? NO_UNITS : sumHeldUnits([seen(stored)]);
    const before = shares.get(id) ?? NO_UNITS;
    if (share !== NO_UNITS) shares.set(id, share);
    else shares.delete(id);
    if (share !== before) held = addUnits(subtractUnits(held, before), share);
  };
  const sight = ({ id, user }: Order) => ({
    capacity,
    held: subtractUnits(held, shares.get(id) ?? NO_UNITS),
    get ofUser() {
      const stored = [...(byUser.get(user) ?? [])].flatMap((each) => (each === id ? [] : (known.get(each) ?? [])));
      return stored.map(seen);
    },
  });
  const records = () => [...known.values()].map(({ record }) => record);
  return {
    learn: (stored) => {
      const { id } = stored.record.order;
      const before = known.get(id);
      if (stored.revision < (before?.revision ?? 0)) return;
      known.set(id, before === undefined ? stored : withOrderOf(before, stored));
      if (before?.record.order.user !== stored.record.order.user) {
        if (before !== undefined) forgetUser(byUser, before.record.order);
        learnUser(byUser, stored.record.order);
      }
      if (stored.revision > (admitted.get(id) ?? 0)) admitted.delete(id);
      count(id);
    },
    forget: (id) => {
      const before = known.get(id);
      if (before !== undefined) forgetUser(byUser, before.record.order);
      known.delete(id);
      admitted.delete(id);
      count(id);
    },
    admit: (order, claim) => {
      const admission = decideAdmission(order, claim, sight(order));
      if (admission.admit === "yes") {
        admitted.set(order.id, known.get(order.id)?.revision ?? 0);
        count(order.id);
      }
      return admission;
    },
    explain: (order, claim) => decideAdmission(order, claim, sight(order)),
    phases: () => {
      const phases = new Map<Phase, number>();
      for (const { phase } of records()) phases.set(phase, (phases.get(phase) ?? 0) + 1);
      return { phases, stuck: records().filter(isStuck).length };
    },
    release: (order) => decideRelease(order, sight(order)),
    counters: () => ({ counters: countLeases(records()), used: sumActiveUnits(records()) }),
  };
}

function learnUser(byUser: Map<string, Set<string>>, { id, user }: Order): void {
  const ids = byUser.get(user);
  if (ids === undefined) byUser.set(user, new Set([id]));
  else ids.add(id);
}

function forgetUser(byUser: Map<string, Set<string>>, { id, user }: Order): void {
  const ids = byUser.get(user);
  ids?.delete(id);
  if (ids?.size === 0) byUser.delete(user);
}

/** An order never changes under its id: the object that is known already has been read. */
function withOrderOf({ record: { order } }: Stored, { record, revision }: Stored): Stored {
  const isSame =
    order.user === record.order.user && order.type === record.order.type && order.data === record.order.data;
  return isSame ? { record: { ...record, order }, revision } : { record, revision };
}
