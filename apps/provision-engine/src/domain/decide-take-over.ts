import { isOver, type Order } from "@muster/leases";
import type { Admission } from "./decide-admission.ts";
import { originOf, type LeaseRecord } from "./lease.ts";
import type { LeaseFacts } from "./lease-snapshot.ts";
import type { Referenced } from "./surroundings.ts";
import type { LeaseChange } from "./transition-lease.ts";

/** `isSame`: the data of both orders, whose secrets are sealed apart. */
export function toReferenced(
  order: Order,
  { order: older, phase, expiresAtNs, heir }: LeaseRecord,
  isSame: boolean,
): Referenced {
  const { id, type, user, engine } = older;
  const [isOfUser, isOfEngine] = [user === order.user, engine === order.engine];
  return { kind: "lease", id, type, phase, expiresAtNs, isOfUser, isOfEngine, isSame, heir };
}

/**
 * Whether the order may take over the workload of the lease that it refers to: all of it, as it is, and only of the same user. Undefined: it refers to none, or to one that
 * nobody knows of, and is decided about as if it did not.
 */
export function decideReference(
  { id, type }: Pick<LeaseFacts, "id" | "type">,
  referenced: Referenced | undefined,
  nowNs: bigint,
): Admission | undefined {
  if (referenced === undefined) return undefined;
  const refused = (why: string): Admission => ({
    kind: "no",
    because: `upgrade refused: lease ${referenced.id} ${why}`,
  });
  if (referenced.kind === "unreadable") return refused("has a record that cannot be read");
  if (!referenced.isOfUser) return refused("is of another user");
  if (!referenced.isOfEngine) return refused("is served by another engine; order from that one");
  if (referenced.type !== type) return refused(`is of type ${referenced.type}, and this order of type ${type}`);
  const { phase, heir } = referenced;
  if (heir !== undefined && heir !== id) return refused(`was taken over by lease ${heir}; refer to that one`);
  if (phase === "ENDED" || phase === "FAILED" || phase === "DECOMMISSIONING")
    return refused(`is ${phase}; order without a reference`);
  if (isOver(referenced.expiresAtNs, nowNs)) return refused("is over; order without a reference");
  if (!referenced.isSame) return refused("was ordered with other data; order with the same");
  if (phase === "ACTIVE") return { kind: "yes", because: `lease ${referenced.id} hands over its workload` };
  return { kind: "later", leases: [referenced.id], because: `lease ${referenced.id} is being provisioned` };
}

/** The next step of a lease that is to have the workload of another one. The write of the older record is what hands it over. */
export type TakeOverStep =
  | { readonly kind: "hand-over"; readonly change: LeaseChange; readonly because: string }
  | { readonly kind: "take"; readonly change: LeaseChange; readonly because: string }
  /** Whoever led before may be about to hand it over: after a write of the older record he cannot. */
  | { readonly kind: "fence"; readonly because: string }
  | { readonly kind: "refuse"; readonly because: string }
  /** It never had anything. */
  | { readonly kind: "leave"; readonly because: string };

/**
 * From both records as they are stored: whatever was interrupted goes on from there. At each moment one of the two has the workload: the older one until its record says
 * who its heir is, and from then on the heir, which takes it down should it end.
 */
export function decideTakeOver(
  { order, phase }: LeaseRecord,
  older: { readonly record: LeaseRecord; readonly isSame: boolean } | undefined,
  fence: number,
  nowNs: bigint,
): TakeOverStep {
  const { id } = order;
  if (older?.record.heir === id) {
    const { crashes } = older.record;
    const change = { kind: "taken-over", madeFor: originOf(older.record), crashes } as const;
    return { kind: "take", change, because: `lease ${older.record.order.id} has handed it over` };
  }
  if (phase === "PROVISIONING") {
    const referenced = older && toReferenced(order, older.record, older.isSame);
    const verdict = decideReference(order, referenced, nowNs);
    if (verdict?.kind === "yes")
      return { kind: "hand-over", change: { kind: "migrated", heir: id }, because: verdict.because };
    return { kind: "refuse", because: verdict?.because ?? "upgrade refused: the lease is not there any more" };
  }
  return older !== undefined && older.record.fence < fence
    ? { kind: "fence", because: "who led before may be about to hand it over" }
    : { kind: "leave", because: "it never had anything" };
}
