import type { Order } from "@muster/leases";
import type { Claim } from "../domain/claim.ts";
import { mayHoldResources, type LeaseRecord } from "../domain/lease.ts";
import { addUnits, NO_UNITS, type ResourceUnits } from "../domain/resource-units.ts";
import type { ProvisionCounters } from "./workload-type.ts";
import { findWorkloadType, readClaim } from "./workload-types.ts";

type Counted = Pick<LeaseRecord, "order" | "phase">;

/** What each lease of a type takes beside what its order says, by how the engine is configured. */
export type Overheads = Readonly<Record<string, ResourceUnits>>;

/** What a lease is counted as; undefined: as nothing. Of those with one `network` only one counts. */
export function countedAs({
  order,
  phase,
}: Counted): { readonly counter: keyof ProvisionCounters; readonly network: string | undefined } | undefined {
  const counter = phase === "ACTIVE" ? findWorkloadType(order.type)?.counter : undefined;
  if (counter === undefined) return undefined;
  const network = counter === "network" ? JSON.stringify([order.user, networkOf(order)]) : undefined;
  return { counter, network };
}

/** What is taken or may be, also by what is being made or taken down: admission and reports go by it. */
export function sumHeldUnits(records: Iterable<Counted>, overheads: Overheads): ResourceUnits {
  let sum = NO_UNITS;
  for (const { order, phase } of records) {
    const claim = mayHoldResources(phase) ? readClaim(order) : undefined;
    if (claim?.ok === true) sum = addUnits(sum, unitsOf(order, claim.value, overheads));
  }
  return sum;
}

/** Name of the network that an order is; undefined: it is none. */
export function networkOf(order: Counted["order"]): string | undefined {
  const claim = readClaim(order);
  return claim.ok ? claim.value.network : undefined;
}

/** All that a lease takes. */
export function unitsOf({ type }: Pick<Order, "type">, { units }: Claim, overheads: Overheads): ResourceUnits {
  const overhead = overheads[type];
  return overhead === undefined ? units : addUnits(units, overhead);
}
