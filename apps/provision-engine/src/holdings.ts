import type { Order } from "@muster/leases";
import { countLeases, sumActiveUnits, sumHeldUnits, type ProvisionCounters } from "./domain/count-leases.ts";
import { decideAdmission, type Admission, type Capacity } from "./domain/decide-admission.ts";
import { decideRelease, type Release } from "./domain/decide-release.ts";
import { isStuck } from "./domain/decide-stuck.ts";
import type { LeaseRecord, Phase } from "./domain/lease.ts";
import type { ResourceUnits } from "./domain/resource-units.ts";
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
  /** Admitted, and not known to have been written; each with the revision that it was admitted at. */
  const admitted = new Map<string, number>();
  const sight = ({ id, user }: Order) => {
    const others = (): Pick<LeaseRecord, "order" | "phase">[] =>
      [...known.values()].flatMap(({ record: { order, phase } }) =>
        order.id === id ? [] : [{ order, phase: admitted.has(order.id) ? "PROVISIONING" : phase }],
      );
    // Most leases take nothing and need nothing: nothing is summed for them.
    return {
      capacity,
      get held() {
        return sumHeldUnits(others());
      },
      get ofUser() {
        return others().filter(({ order }) => order.user === user);
      },
    };
  };
  const records = () => [...known.values()].map(({ record }) => record);
  return {
    learn: (stored) => {
      const { id } = stored.record.order;
      if (stored.revision < (known.get(id)?.revision ?? 0)) return;
      known.set(id, stored);
      if (stored.revision > (admitted.get(id) ?? 0)) admitted.delete(id);
    },
    forget: (id) => {
      known.delete(id);
      admitted.delete(id);
    },
    admit: (order, claim) => {
      const admission = decideAdmission(order, claim, sight(order));
      if (admission.admit === "yes") admitted.set(order.id, known.get(order.id)?.revision ?? 0);
      return admission;
    },
    explain: (order, claim) => decideAdmission(order, claim, sight(order)),
    phases: () => {
      const phases = new Map<Phase, number>();
      for (const { phase } of records()) phases.set(phase, (phases.get(phase) ?? 0) + 1);
      return { phases, stuck: records().filter(isStuck).length };
    },
    release: (order) => decideRelease(order, sight(order).ofUser),
    counters: () => ({ counters: countLeases(records()), used: sumActiveUnits(records()) }),
  };
}
