import type { Order } from "@muster/leases";
import { networkOf } from "./count-leases.ts";
import { VOLUME } from "./data-volume.ts";
import { mayHold, type LeaseRecord } from "./lease.ts";
import { readClaim } from "./workload-types.ts";

/** Whether what a lease has may be taken down. */
export type Release =
  | { readonly release: "yes"; readonly because: string }
  /** `lease`: one of those that it waits for. */
  | { readonly release: "later"; readonly lease: string; readonly because: string };

const NAMED_MOST = 5;

const FREE: Release = { release: "yes", because: "nothing lives in it" };

/** A network stays while leases live in it, a volume while it may be mounted: `ofUser` are the other leases of the same user. */
export function decideRelease(
  order: Order,
  holdings: { readonly ofUser: readonly Pick<LeaseRecord, "order" | "phase">[] },
): Release {
  const network = networkOf(order);
  // Nothing needs the others, and nobody has to say who is there.
  if (network === undefined && order.type !== VOLUME.type) return FREE;
  const users = holdings.ofUser.filter((each) => {
    if (!mayHold(each.phase) || each.order.user !== order.user || each.order.id === order.id) return false;
    const claim = readClaim(each.order);
    if (!claim.ok) return false;
    const { networks, volumes } = claim.value.needs;
    return (network !== undefined && networks.includes(network)) || volumes.includes(order.id);
  });
  const [first] = users;
  if (first === undefined) return FREE;
  const named = users.slice(0, NAMED_MOST).map((each) => each.order.id);
  const more = users.length > named.length ? ` and ${users.length - named.length} more` : "";
  return { release: "later", lease: first.order.id, because: `it is in use by ${named.join(", ")}${more}` };
}
