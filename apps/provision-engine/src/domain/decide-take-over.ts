import { isOver, type Order } from "@muster/leases";
import type { Admission } from "./decide-admission.ts";
import { originOf, type LeaseRecord } from "./lease.ts";
import type { Referenced } from "./claim.ts";
import type { LeaseChange } from "./lease-change.ts";

/** `isSame`: whether both orders have equal data once their secrets are opened. */
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
 * Decides whether an order may take over the workload of the lease that it refers to: unchanged, and of the same user. Undefined if it refers to no lease, or
 * to an unknown one; it is then decided as an order without a reference.
 */
export function decideReference(
  { id, type }: Pick<Order, "id" | "type">,
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

/** The next step of a take-over. The write to the older record hands the workload over. */
type TakeOverStep =
  | { readonly kind: "hand-over"; readonly change: LeaseChange; readonly because: string }
  | { readonly kind: "take"; readonly change: LeaseChange; readonly because: string }
  /** A previous leader may still hand it over; a write to the older record prevents that. */
  | { readonly kind: "fence"; readonly because: string }
  | { readonly kind: "refuse"; readonly because: string }
  /** The lease never had a workload. */
  | { readonly kind: "leave"; readonly because: string };

/**
 * Decides from both stored records, so that an interrupted take-over continues. Exactly one of the two leases has the workload: the older one until its record
 * names its heir, and then the heir, which removes it at its own end.
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
    return { kind: "take", change, because: `lease ${older.record.order.id} has handed over its workload` };
  }
  if (phase === "PROVISIONING") {
    const referenced = older && toReferenced(order, older.record, older.isSame);
    const verdict = decideReference(order, referenced, nowNs);
    if (verdict?.kind === "yes")
      return { kind: "hand-over", change: { kind: "migrated", heir: id }, because: verdict.because };
    return { kind: "refuse", because: verdict?.because ?? "upgrade refused: the lease no longer exists" };
  }
  return older !== undefined && older.record.fence < fence
    ? { kind: "fence", because: "a previous leader may be about to hand it over" }
    : { kind: "leave", because: "it never had a workload" };
}
