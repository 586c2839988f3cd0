import { isOver, type Order } from "@muster/leases";
import type { Admission } from "./decide-admission.ts";
import type { LeaseReason } from "./lease-reason.ts";
import { getOrigin, type LeaseRecord } from "./lease.ts";
import type { ReferencedLease } from "./claim.ts";
import type { LeaseChange } from "./lease-change.ts";

/** `isSame`: whether both orders have equal data once their secrets are opened. */
export function toReferenced(
  order: Order,
  { order: older, phase, expiresAtNs, heir }: LeaseRecord,
  isSame: boolean,
): ReferencedLease {
  const { id, type, user, engine } = older;
  const [isOfUser, isOfEngine] = [user === order.user, engine === order.engine];
  return { kind: "lease", id, type, phase, expiresAtNs, isOfUser, isOfEngine, isSame, heir };
}

/**
 * Decides whether an order may take over the workload of the lease to which it refers: unchanged, and of the same user. Undefined if the order refers to no
 * lease, or to an unknown one: it is then decided like an order without a reference.
 */
export function decideReference(
  { id, type }: Pick<Order, "id" | "type">,
  referenced: ReferencedLease | undefined,
  nowNs: bigint,
): Admission | undefined {
  if (referenced === undefined) return undefined;
  const lease = referenced.id;
  const refused = (because: LeaseReason): Admission => ({ kind: "no", because });
  if (referenced.kind === "unreadable") return refused({ code: "reference-unreadable", lease });
  if (!referenced.isOfUser) return refused({ code: "reference-of-another-user", lease });
  if (!referenced.isOfEngine) return refused({ code: "reference-on-another-engine", lease });
  if (referenced.type !== type)
    return refused({ code: "reference-of-another-type", lease, type: referenced.type, ordered: type });
  const { phase, heir } = referenced;
  if (heir !== undefined && heir !== id) return refused({ code: "reference-taken-over", lease, heir });
  if (phase === "ENDED" || phase === "FAILED" || phase === "DECOMMISSIONING")
    return refused({ code: "reference-ended", lease, phase });
  if (isOver(referenced.expiresAtNs, nowNs)) return refused({ code: "reference-expired", lease });
  if (!referenced.isSame) return refused({ code: "reference-with-other-data", lease });
  if (phase === "ACTIVE") return { kind: "yes", because: { code: "hands-over", lease } };
  return { kind: "later", leases: [lease], because: { code: "reference-coming", lease } };
}

/** The next step of a take-over. The write to the older record hands the workload over. */
type TakeOverStep =
  | { readonly kind: "hand-over"; readonly change: LeaseChange; readonly because: LeaseReason }
  | { readonly kind: "take"; readonly change: LeaseChange; readonly because: LeaseReason }
  /** A previous leader may still hand the workload over; a write to the older record prevents that. */
  | { readonly kind: "fence"; readonly because: LeaseReason }
  | { readonly kind: "refuse"; readonly because: LeaseReason }
  /** The lease never had a workload. */
  | { readonly kind: "leave"; readonly because: LeaseReason };

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
    const change = { kind: "taken-over", madeFor: getOrigin(older.record), crashes } as const;
    return { kind: "take", change, because: { code: "handed-over", lease: older.record.order.id } };
  }
  if (phase === "PROVISIONING") {
    const referenced = older && toReferenced(order, older.record, older.isSame);
    const verdict = decideReference(order, referenced, nowNs);
    if (verdict?.kind === "yes")
      return { kind: "hand-over", change: { kind: "migrated", heir: id }, because: verdict.because };
    return { kind: "refuse", because: verdict?.because ?? { code: "reference-gone" } };
  }
  return older !== undefined && older.record.fence < fence
    ? { kind: "fence", because: { code: "hand-over-possible" } }
    : { kind: "leave", because: { code: "no-workload" } };
}
