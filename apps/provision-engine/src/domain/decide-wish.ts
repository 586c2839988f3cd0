import { describeFault, type Fault } from "@muster/faults";
import {
  buildEndBytes,
  buildRenewalBytes,
  DURATION_NS_MAX,
  type EndRequest,
  isOver,
  type Order,
  type Renewal,
} from "@muster/leases";
import { FUTURE_TOLERANCE_NS, type OrderContext, type OrderPolicy } from "./decide-order.ts";
import type { LeaseRecord } from "./lease.ts";
import type { LeaseChange } from "./transition-lease.ts";
import { verifySigned, wrong } from "./verify-signed.ts";

export type WishVerdict =
  | { readonly do: "change"; readonly change: LeaseChange; readonly because: string }
  /** It is as wished already. */
  | { readonly do: "nothing"; readonly because: string }
  | { readonly do: "refuse"; readonly fault: Fault; readonly because: string };

type WishContext = Pick<OrderContext, "nowNs" | "verify">;

/** Whether a lease gets more time: only from its own user, before it is over, and never by a renewal that was there before. */
export function decideRenewal(
  renewal: Renewal,
  stored: LeaseRecord | undefined,
  context: WishContext,
  policy: OrderPolicy,
): WishVerdict {
  const fault = checkWish(renewal, (order) => buildRenewalBytes(renewal, order), stored, context, policy);
  if (fault !== undefined || stored === undefined) return refuse(fault ?? notFound(renewal.id));
  const { sequence, expiresAtNs } = renewal;
  const last = stored.renewal?.sequence ?? 0;
  if (sequence === last && stored.renewal?.expiresAtNs === expiresAtNs)
    return { do: "nothing", because: "it was renewed by this before" };
  if (sequence <= last) return refuse(wrong("sequence", `${sequence} is not above ${last}, the last one`));
  if (stored.heir !== undefined)
    return refuse(wrong("id", `lease ${renewal.id} was taken over by lease ${stored.heir}; renew that one`));
  const over = whyNotRenewable(stored, context.nowNs);
  if (over !== undefined) return refuse(wrong("id", `lease ${renewal.id} ${over}`));
  if (expiresAtNs > stored.order.createdNs + DURATION_NS_MAX)
    return refuse(wrong("expires_at", "is beyond what never ends"));
  if (expiresAtNs <= stored.expiresAtNs)
    return refuse(wrong("expires_at", "is not after the present end of the lease"));
  return { do: "change", change: { kind: "renewed", renewal }, because: "its user wants it longer" };
}

/** Whether a lease ends now: only its own user may say so. */
export function decideEnd(
  request: EndRequest,
  stored: LeaseRecord | undefined,
  context: WishContext,
  policy: OrderPolicy,
): WishVerdict {
  const fault = checkWish(request, (order) => buildEndBytes(request, order), stored, context, policy);
  if (fault !== undefined || stored === undefined) return refuse(fault ?? notFound(request.id));
  if (request.createdNs - context.nowNs > FUTURE_TOLERANCE_NS)
    return refuse(wrong("created", "is more than 5 minutes ahead"));
  // Who signs the end may have another clock than who signed the order.
  if (stored.order.createdNs - request.createdNs > FUTURE_TOLERANCE_NS)
    return refuse(wrong("created", "is from before its order"));
  if (stored.phase === "ENDED") return { do: "nothing", because: "it has ended" };
  const ending = { cause: "REQUESTED", message: "", request } as const;
  return { do: "change", change: { kind: "ending", ending }, because: "its user ends it" };
}

/** Whether a lease ends because the source that it came from says so. No other source can. */
export function decideWithdrawal(id: string, source: string, stored: LeaseRecord | undefined): WishVerdict {
  if (stored === undefined) return refuse(notFound(id));
  if (stored.source !== source)
    return refuse(wrong("id", `lease ${id} came from ${stored.source}, not from ${source}`));
  if (stored.phase === "ENDED")
    return { do: "change", change: { kind: "resent" }, because: "it has ended, and that is told again" };
  const ending = { cause: "WITHDRAWN", message: "", request: undefined } as const;
  return { do: "change", change: { kind: "ending", ending }, because: "its source withdraws it" };
}

function whyNotRenewable({ phase, ending, expiresAtNs }: LeaseRecord, nowNs: bigint): string | undefined {
  const because = ending === undefined ? "" : ` (${ending.cause})`;
  if (phase === "ENDED") return `has ended${because}`;
  if (phase === "FAILED") return "has failed";
  if (phase === "DECOMMISSIONING") return `is being taken down${because}`;
  return isOver(expiresAtNs, nowNs) ? "is over" : undefined;
}

function checkWish(
  wish: Renewal | EndRequest,
  contentFor: (order: Order) => Uint8Array,
  stored: LeaseRecord | undefined,
  { verify }: WishContext,
  { engine, verifySignatures }: OrderPolicy,
): Fault | undefined {
  if (wish.engine !== engine) return wrong("engine", `"${wish.engine}" is not this one, which is "${engine}"`);
  // Whose lease it is is nobody else's business.
  if (stored === undefined || stored.order.user !== wish.user) return notFound(wish.id);
  return verifySignatures ? verifySigned(wish, contentFor(stored.order), verify) : undefined;
}

function notFound(id: string): Fault {
  return { code: "not_found", kind: "lease", id };
}

function refuse(fault: Fault): WishVerdict {
  return { do: "refuse", fault, because: describeFault(fault) };
}
