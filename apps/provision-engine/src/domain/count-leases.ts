import type { LeaseRecord } from "./lease.ts";
import { mayHold } from "./lease.ts";
import { addUnits, NO_UNITS, type ResourceUnits } from "./resource-units.ts";
import { findWorkloadType, readClaim } from "./workload-types.ts";

/** Active leases by what they are. `vm` counts kubernetes. */
export type ProvisionCounters = {
  readonly container: number;
  readonly volume: number;
  readonly network: number;
  readonly zdb: number;
  readonly vm: number;
  readonly debug: number;
  readonly machine: number;
};

type Counted = Pick<LeaseRecord, "order" | "phase">;

const NONE: ProvisionCounters = { container: 0, volume: 0, network: 0, zdb: 0, vm: 0, debug: 0, machine: 0 };

/** Counts active leases; a network that several leases of one user name is one. */
export function countLeases(records: Iterable<Counted>): ProvisionCounters {
  const counters = { ...NONE };
  const networks = new Set<string>();
  for (const { order, phase } of records) {
    if (phase !== "ACTIVE") continue;
    const counter = findWorkloadType(order.type)?.counter;
    if (counter === undefined) continue;
    if (counter === "network") networks.add(JSON.stringify([order.user, networkOf(order)]));
    else counters[counter] += 1;
  }
  return { ...counters, network: networks.size };
}

/** What active leases take: what is reported. */
export function sumActiveUnits(records: Iterable<Counted>): ResourceUnits {
  return sumUnits(records, (phase) => phase === "ACTIVE");
}

/** What is taken or may be, also by what is being made or taken down: what admission goes by. */
export function sumHeldUnits(records: Iterable<Counted>): ResourceUnits {
  return sumUnits(records, mayHold);
}

/** Name of the network that an order is; undefined: it is none. */
export function networkOf(order: Counted["order"]): string | undefined {
  const claim = readClaim(order);
  return claim.ok ? claim.value.network : undefined;
}

function sumUnits(records: Iterable<Counted>, counts: (phase: LeaseRecord["phase"]) => boolean): ResourceUnits {
  let sum = NO_UNITS;
  for (const { order, phase } of records) {
    const claim = counts(phase) ? readClaim(order) : undefined;
    if (claim?.ok === true) sum = addUnits(sum, claim.value.units);
  }
  return sum;
}
