import type { Order } from "@muster/leases";
import { networkOf } from "./count-leases.ts";
import { mayHold, type LeaseRecord } from "./lease.ts";
import { readClaim } from "./workload-types.ts";

/** Whether what a lease has may be taken down. */
export type Release = { readonly release: "yes" | "later"; readonly because: string };

const NAMED_MOST = 5;

/** A network stays while leases live in it, a volume while it may be mounted: `ofUser` are the other leases of the same user. */
export function decideRelease(order: Order, ofUser: readonly Pick<LeaseRecord, "order" | "phase">[]): Release {
  const network = networkOf(order);
  const users = ofUser.filter((each) => {
    if (!mayHold(each.phase) || each.order.user !== order.user || each.order.id === order.id) return false;
    const claim = readClaim(each.order);
    if (!claim.ok) return false;
    const { networks, volumes } = claim.value.needs;
    return (network !== undefined && networks.includes(network)) || volumes.includes(order.id);
  });
  if (users.length === 0) return { release: "yes", because: "nothing lives in it" };
  const named = users.slice(0, NAMED_MOST).map((each) => each.order.id);
  const more = users.length > named.length ? ` and ${users.length - named.length} more` : "";
  return { release: "later", because: `it is in use by ${named.join(", ")}${more}` };
}
