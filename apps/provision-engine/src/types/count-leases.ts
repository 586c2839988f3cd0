import type { Order } from "@muster/leases";
import type { Claim } from "../domain/claim.ts";
import { mayHoldResources, type LeaseRecord } from "../domain/lease.ts";
import { addUnits, NO_UNITS, type ResourceUnits } from "../domain/resource-units.ts";
import type { ProvisionCounters } from "./workload-type.ts";
import { findWorkloadType, readClaim } from "./workload-types.ts";

type Counted = Pick<LeaseRecord, "order" | "phase">;

/** Resources of each lease of a type beyond those in its order, from the configuration. */
export type Overheads = Readonly<Record<string, ResourceUnits>>;

/** The counter of a lease; undefined if it does not count. Leases with the same `network` count once. */
export function countedAs({
  order,
  phase,
}: Counted): { readonly counter: keyof ProvisionCounters; readonly network: string | undefined } | undefined {
  const counter = phase === "ACTIVE" ? findWorkloadType(order.type)?.counter : undefined;
  if (counter === undefined) return undefined;
  const network = counter === "network" ? JSON.stringify([order.user, networkOf(order)]) : undefined;
  return { counter, network };
}

/** Resources that leases hold or may hold, including leases being created or removed; used by admission and reports. */
export function sumHeldUnits(records: Iterable<Counted>, overheads: Overheads): ResourceUnits {
  let sum = NO_UNITS;
  for (const { order, phase } of records) {
    const claim = mayHoldResources(phase) ? readClaim(order) : undefined;
    if (claim?.ok === true) sum = addUnits(sum, unitsOf(order, claim.value, overheads));
  }
  return sum;
}

/** Name of the network that an order creates; undefined for other types. */
export function networkOf(order: Counted["order"]): string | undefined {
  const claim = readClaim(order);
  return claim.ok ? claim.value.network : undefined;
}

/** All resources of a lease. */
export function unitsOf({ type }: Pick<Order, "type">, { units }: Claim, overheads: Overheads): ResourceUnits {
  const overhead = overheads[type];
  return overhead === undefined ? units : addUnits(units, overhead);
}
