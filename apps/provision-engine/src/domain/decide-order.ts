import { findFault, formatDuration, type Fault } from "@muster/faults";
import {
  buildLegacyOrderBytes,
  buildOrderBytes,
  MAX_DURATION_NS,
  computeEndNs,
  findUnsealed,
  isOver,
  type Order,
  splitId,
} from "@muster/leases";
import { MAX_DATA_BYTES } from "@muster/leases/data";
import { type LeaseRecord, isRelistingOrders } from "./lease.ts";
import {
  isOrderOf,
  type ComputeDigest,
  verifySigned,
  buildSignatureFault,
  type VerifySignature,
} from "./signed-content.ts";
import { withEvent, type LeaseChange } from "./lease-change.ts";

/** Maximum lead of a signer's clock over the clock of this process: 5 minutes. */
export const MAX_CLOCK_SKEW_NS = 300_000_000_000n;

const TYPE = /^[a-z][a-z0-9_]{0,62}$/;
const MAX_REFERENCE_CHARACTERS = 64;

export type OrderPolicy = {
  /** Id of this engine. */
  readonly engine: string;
  /** If false, any client that reaches the engine may order for any user. */
  readonly verifySignatures: boolean;
  /** Accepts legacy signatures too, which do not cover id, times, reference and version. */
  readonly legacySignatures: boolean;
  /** Maximum age of an order that is not known yet. */
  readonly maxOrderAgeNs: bigint;
  /** Maximum age of an unknown order that a controller lists. */
  readonly maxListedAgeNs: bigint;
  /** Accepts orders with plain secrets too, which any client with the right to get leases can read. */
  readonly unsealedSecrets: boolean;
};

export type OrderContext = {
  readonly nowNs: bigint;
  readonly verify: VerifySignature;
  readonly digest: ComputeDigest;
  readonly source: string;
  readonly requestId: string;
  readonly traceparent: string;
};

type RefusalAnswer = "nothing" | "error" | "deleted";

export type OrderVerdict =
  | { readonly kind: "create"; readonly record: LeaseRecord; readonly because: "order-is-new" }
  /** The lease exists. */
  | { readonly kind: "change"; readonly change: LeaseChange; readonly because: "lease-exists" }
  /**
   * The answer to the source, which stops its retries. `deleted`: the lease does not exist; `error`: also the reason; `nothing`: the sender is unproven, or the
   * id belongs to another lease.
   */
  | {
      readonly kind: "refuse";
      readonly fault: Fault;
      readonly answer: RefusalAnswer;
      readonly because: Fault["code"];
    };

/**
 * Decides about an incoming order, given the record of its id. An order without its user's signature has no effect and gets no answer. For an order whose lease
 * exists, only the answer is sent again. Type and data are checked only for plain secrets: an order that cannot be served fails with a result.
 */
export function decideOrder(
  order: Order,
  stored: LeaseRecord | undefined,
  context: OrderContext,
  policy: OrderPolicy,
): OrderVerdict {
  const fault = checkFields(order, policy) ?? checkSignature(order, context, policy);
  if (fault !== undefined) return refuseOrder(fault);
  if (stored !== undefined) return decideResent(order, stored, context);
  const untimely = checkTimes(order, context, policy);
  if (untimely !== undefined) return refuseOrder(untimely.fault, untimely.answer);
  const unsealed = policy.unsealedSecrets ? undefined : findUnsealed("order", order);
  if (unsealed === "") return refuseOrder(buildSignatureFault("data", UNREADABLE), "error");
  if (unsealed !== undefined) return refuseOrder(buildSignatureFault(`data.${unsealed}`, UNSEALED), "error");
  return { kind: "create", record: newRecord(order, context), because: "order-is-new" };
}

const UNREADABLE = "is not JSON, so its secrets cannot be found, and are not stored";
const UNSEALED = "is not sealed to this engine: any client that may get leases could read it";

function decideResent(order: Order, stored: LeaseRecord, { digest }: OrderContext): OrderVerdict {
  if (isOrderOf(order, stored, digest))
    return { kind: "change", change: { kind: "resent", data: order.data }, because: "lease-exists" };
  return refuseOrder({ code: "already_exists", kind: "lease", id: order.id });
}

/** Refuses an order with the reason that its sender gets. */
export function refuseOrder(fault: Fault, answer: RefusalAnswer = "nothing"): OrderVerdict & { kind: "refuse" } {
  return { kind: "refuse", fault, answer, because: fault.code };
}

function checkFields(order: Order, { engine }: OrderPolicy): Fault | undefined {
  try {
    splitId(order.id);
  } catch (error) {
    return findFault(error);
  }
  if (order.engine !== engine)
    return buildSignatureFault("engine", `"${order.engine}" is not this one, which is "${engine}"`);
  if (!TYPE.test(order.type))
    return buildSignatureFault("type", `"${order.type.slice(0, 64)}" is not the name of a type`);
  if (new TextEncoder().encode(order.data).length > MAX_DATA_BYTES)
    return buildSignatureFault("data", `is larger than ${MAX_DATA_BYTES} bytes`);
  if ((order.reference?.length ?? 0) > MAX_REFERENCE_CHARACTERS)
    return buildSignatureFault("reference", `is longer than ${MAX_REFERENCE_CHARACTERS} characters`);
  if (order.reference === order.id)
    return buildSignatureFault("reference", "is the lease itself; it must name an older one");
  if (order.durationNs <= 0n) return buildSignatureFault("duration", "is not above zero");
  if (order.durationNs > MAX_DURATION_NS) return buildSignatureFault("duration", "is above the maximum of 2^63 - 1 ns");
  if (order.createdNs <= 0n) return buildSignatureFault("created", "is missing");
  return undefined;
}

function checkSignature(order: Order, { verify }: OrderContext, policy: OrderPolicy): Fault | undefined {
  if (!policy.verifySignatures) return undefined;
  if (order.signatureFormat === "muster-lease-v1") return verifySigned(order, buildOrderBytes(order), verify);
  if (policy.legacySignatures) return verifySigned(order, buildLegacyOrderBytes(order), verify);
  return buildSignatureFault(
    "signature_format",
    "legacy is not accepted here: it does not cover id, time and duration",
  );
}

/** Maximum ages of orders that are not known yet. */
export type OrderAges = Pick<OrderPolicy, "maxOrderAgeNs" | "maxListedAgeNs">;

/** After this time an unknown order is refused, so its lease record may be removed. */
export function computeAcceptedUntilNs(
  { order, source }: Pick<LeaseRecord, "order" | "source">,
  ages: OrderAges,
): bigint {
  const endsAtNs = computeEndNs(order);
  const oldAtNs = order.createdNs + getMaxAge(source, ages).maxNs;
  return endsAtNs < oldAtNs ? endsAtNs : oldAtNs;
}

function getMaxAge(source: string, { maxOrderAgeNs, maxListedAgeNs }: OrderAges) {
  return isRelistingOrders(source)
    ? { maxNs: maxListedAgeNs, setting: "PROVISION_LISTED_AGE_MS" }
    : { maxNs: maxOrderAgeNs, setting: "PROVISION_ORDER_AGE_MS" };
}

function checkTimes(
  order: Order,
  { nowNs, source }: OrderContext,
  policy: OrderPolicy,
): Pick<OrderVerdict & { kind: "refuse" }, "fault" | "answer"> | undefined {
  const endsAtNs = computeEndNs(order);
  if (isOver(endsAtNs, nowNs))
    return { fault: buildSignatureFault("duration", `ended ${formatNs(nowNs - endsAtNs)} ago`), answer: "deleted" };
  if (isOver(computeAcceptedUntilNs({ order, source }, policy), nowNs)) {
    const { maxNs, setting } = getMaxAge(source, policy);
    const age = `is ${formatNs(nowNs - order.createdNs)} ago, and orders older than ${formatNs(maxNs)} are not accepted`;
    return { fault: buildSignatureFault("created", `${age} (${setting}); sign a new one`), answer: "deleted" };
  }
  const aheadNs = order.createdNs - nowNs;
  if (aheadNs > MAX_CLOCK_SKEW_NS) {
    const fault = buildSignatureFault(
      "created",
      `is ${formatNs(aheadNs)} ahead; ${formatNs(MAX_CLOCK_SKEW_NS)} are tolerated`,
    );
    return { fault, answer: "error" };
  }
  return undefined;
}

function formatNs(ns: bigint): string {
  return formatDuration(Number(ns / 1_000_000n));
}

function newRecord(order: Order, { nowNs, source, requestId, traceparent }: OrderContext): LeaseRecord {
  const record: LeaseRecord = {
    order,
    source,
    phase: "ORDERED",
    run: 1,
    result: undefined,
    expiresAtNs: computeEndNs(order),
    renewal: undefined,
    ending: undefined,
    attempts: 0,
    notBeforeNs: 0n,
    trouble: "",
    feedback: { result: false, deleted: false, number: 0, attempts: 0, refusals: 0, repeats: 0, notBeforeNs: 0n },
    outbox: [],
    events: 0,
    endedAtNs: undefined,
    fence: 0,
    requestId,
    traceparent,
    crashes: undefined,
    takesOver: undefined,
    madeFor: undefined,
    heir: undefined,
    orderHash: undefined,
  };
  return withEvent(record, "ORDERED", `by ${source}`, nowNs);
}
