import type { Fault } from "@muster/faults";
import {
  buildEndBytes,
  buildRenewalBytes,
  MAX_DURATION_NS,
  type EndRequest,
  isOver,
  type Order,
  type Renewal,
} from "@muster/leases";
import { MAX_CLOCK_SKEW_NS, type OrderContext, type OrderPolicy } from "./decide-order.ts";
import type { LeaseRecord } from "./lease.ts";
import type { LeaseChange } from "./lease-change.ts";
import { verifySigned, buildSignatureFault } from "./signed-content.ts";

/**
 * Why a request changes a lease, and the functions that set it:
 * - renewed-by-user: `decideRenewal`; ended-by-user: `decideEnd`
 * - withdrawn-by-source; end-sent-again, it has ended: `decideWithdrawal`
 */
type ChangeReason = "renewed-by-user" | "ended-by-user" | "withdrawn-by-source" | "end-sent-again";

export type RequestVerdict =
  | { readonly kind: "change"; readonly change: LeaseChange; readonly because: ChangeReason }
  /** The request is already fulfilled. */
  | { readonly kind: "nothing"; readonly because: "renewal-applied" | "has-ended" }
  | { readonly kind: "refuse"; readonly fault: Fault; readonly because: Fault["code"] };

type RequestContext = Pick<OrderContext, "nowNs" | "verify">;

/** Decides about a renewal: only by the lease's own user, before the lease is over, and with a new sequence. */
export function decideRenewal(
  renewal: Renewal,
  stored: LeaseRecord | undefined,
  context: RequestContext,
  policy: OrderPolicy,
): RequestVerdict {
  const fault = checkRequest(renewal, (order) => buildRenewalBytes(renewal, order), stored, context, policy);
  if (fault !== undefined || stored === undefined) return refuse(fault ?? notFound(renewal.id));
  const { sequence, expiresAtNs } = renewal;
  const last = stored.renewal?.sequence ?? 0;
  if (sequence === last && stored.renewal?.expiresAtNs === expiresAtNs)
    return { kind: "nothing", because: "renewal-applied" };
  if (sequence <= last)
    return refuse(buildSignatureFault("sequence", `${sequence} is not above ${last}, the last one`));
  if (stored.heir !== undefined)
    return refuse(
      buildSignatureFault("id", `lease ${renewal.id} was taken over by lease ${stored.heir}; renew that one`),
    );
  const over = whyNotRenewable(stored, context.nowNs);
  if (over !== undefined) return refuse(buildSignatureFault("id", `lease ${renewal.id} ${over}`));
  if (expiresAtNs > stored.order.createdNs + MAX_DURATION_NS)
    return refuse(buildSignatureFault("expires_at", "is beyond the maximum duration"));
  if (expiresAtNs <= stored.expiresAtNs)
    return refuse(buildSignatureFault("expires_at", "is not after the present end of the lease"));
  return { kind: "change", change: { kind: "renewed", renewal }, because: "renewed-by-user" };
}

/** Decides about an end, which only the lease's own user may request. */
export function decideEnd(
  request: EndRequest,
  stored: LeaseRecord | undefined,
  context: RequestContext,
  policy: OrderPolicy,
): RequestVerdict {
  const fault = checkRequest(request, (order) => buildEndBytes(request, order), stored, context, policy);
  if (fault !== undefined || stored === undefined) return refuse(fault ?? notFound(request.id));
  if (request.createdNs - context.nowNs > MAX_CLOCK_SKEW_NS)
    return refuse(buildSignatureFault("created", "is more than 5 minutes ahead"));
  // The end may be signed with another clock than the order.
  if (stored.order.createdNs - request.createdNs > MAX_CLOCK_SKEW_NS)
    return refuse(buildSignatureFault("created", "is before its order"));
  if (stored.phase === "ENDED") return { kind: "nothing", because: "has-ended" };
  const ending = { cause: "REQUESTED", message: "", request } as const;
  return { kind: "change", change: { kind: "ending", ending }, because: "ended-by-user" };
}

/** Decides about a withdrawal, which only the source of the order may request. */
export function decideWithdrawal(id: string, source: string, stored: LeaseRecord | undefined): RequestVerdict {
  if (stored === undefined) return refuse(notFound(id));
  if (stored.source !== source)
    return refuse(buildSignatureFault("id", `lease ${id} came from ${stored.source}, not from ${source}`));
  if (stored.phase === "ENDED") return { kind: "change", change: { kind: "resent" }, because: "end-sent-again" };
  const ending = { cause: "WITHDRAWN", message: "", request: undefined } as const;
  return { kind: "change", change: { kind: "ending", ending }, because: "withdrawn-by-source" };
}

function whyNotRenewable({ phase, ending, expiresAtNs }: LeaseRecord, nowNs: bigint): string | undefined {
  const cause = ending === undefined ? "" : ` (${ending.cause})`;
  if (phase === "ENDED") return `has ended${cause}`;
  if (phase === "FAILED") return "has failed";
  if (phase === "DECOMMISSIONING") return `is being taken down${cause}`;
  return isOver(expiresAtNs, nowNs) ? "is over" : undefined;
}

function checkRequest(
  request: Renewal | EndRequest,
  contentFor: (order: Order) => Uint8Array,
  stored: LeaseRecord | undefined,
  { verify }: RequestContext,
  { engine, verifySignatures }: OrderPolicy,
): Fault | undefined {
  if (request.engine !== engine)
    return buildSignatureFault("engine", `"${request.engine}" is not this one, which is "${engine}"`);
  // The owner of a lease is not disclosed to other users.
  if (stored === undefined || stored.order.user !== request.user) return notFound(request.id);
  return verifySignatures ? verifySigned(request, contentFor(stored.order), verify) : undefined;
}

function notFound(id: string): Fault {
  return { code: "not_found", kind: "lease", id };
}

function refuse(fault: Fault): RequestVerdict {
  return { kind: "refuse", fault, because: fault.code };
}
