import type { Order } from "@muster/leases";
import { unitsOf, type Overheads } from "./count-leases.ts";
import { addUnits } from "./resource-units.ts";
import type { Surroundings } from "./surroundings.ts";
import type { Claim } from "./workload-type.ts";
import { readClaim } from "./workload-types.ts";

/** What there would be beside an order, were others of its user begun before. */
export function withOrders(
  around: Surroundings,
  { order, claim }: { readonly order: Order; readonly claim: Claim },
  before: readonly Order[],
  overheads: Overheads,
): Surroundings {
  const { needs, network: own } = claim;
  let { held } = around;
  const named = [...around.named];
  for (const other of before) {
    const read = other.user === order.user && other.engine === order.engine ? readClaim(other) : undefined;
    if (read?.ok !== true || other.id === order.id) continue;
    held = addUnits(held, unitsOf(other, read.value, overheads));
    const { network } = read.value;
    const isNamed =
      needs.volumes.includes(other.id) ||
      (network !== undefined && (network === own || needs.networks.includes(network)));
    if (!isNamed || named.some(({ id }) => id === other.id)) continue;
    const { id, type } = other;
    named.push({ id, type, phase: "PROVISIONING", network, within: read.value.needs.networks[0] });
  }
  return { ...around, held, named };
}
