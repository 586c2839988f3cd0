import type { Order } from "@muster/leases";
import { readClaim } from "../domain/workload-types.ts";
import { networkId } from "./network-id.ts";

/** Of everything that is made for a lease; its kind tells the rest. Fits a DNS label. */
export function leaseName(id: string): string {
  return `lease-${id}`;
}

/** Of a user's network. */
export function networkNamespace(user: string, network: string): string {
  return `muster-${networkId(user, network)}`;
}

/** Where what is made for an order lives: in the network that it names, else in the engine's own namespace. */
export function namespaceOf(order: Pick<Order, "user" | "type" | "data">, engineNamespace: string): string {
  const claim = readClaim(order);
  const [network] = claim.ok ? claim.value.needs.networks : [];
  return network === undefined ? engineNamespace : networkNamespace(order.user, network);
}
