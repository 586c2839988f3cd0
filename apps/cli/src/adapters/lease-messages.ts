import type { Result } from "@muster/leases";
import { toTimeText, toEnd, toNs, toOrder, toRenewal } from "@muster/leases/wire";
import { enums, toLowercaseNames, muster } from "@muster/proto";
import { nameOf, pickFields } from "./message-fields.ts";

export type Lease = ReturnType<typeof toLease>;
/** The signed parts of a lease, and its phase and end, which are not signed. */
export type SignedLease = Pick<
  Lease,
  "order" | "phase" | "expiresAtNs" | "renewal" | "endRequest" | "result" | "orderHash"
>;
export type LeaseUsers = Lease["usedBy"];
export type LeaseEvent = ReturnType<typeof toLeaseEvent>;
/** The result of one search for leftovers of leases. */
export type Cleanup = ReturnType<typeof toCleanup>;
/** The schedule of the automatic cleanup of an engine. */
export type CleanupSchedule = ReturnType<typeof toCleanupSchedule>;
/** Whether an engine searches for leftovers of leases and removes them. */
export type CleanupState = ReturnType<typeof toCleanupState>;
/** The load of an engine: the resources that its leases use. */
export type EngineLoad = ReturnType<typeof toEngineLoad>;
export type EngineIdentity = Pick<muster.provision.v1.GetEngineReply, "engine" | "key">;
/** A lease whose record the engines cannot read. */
export type UnreadableLease = Pick<muster.provision.v1.UnreadableLease, "id" | "because">;

const STATES = toLowercaseNames(enums.ResultState);

export function toLease(message = muster.provision.v1.Lease.create()) {
  const record = message.record ?? muster.provision.v1.LeaseRecord.create();
  const { result, renewal, ending } = record;
  return {
    order: toOrder(record.order ?? muster.provision.v1.Order.create()),
    phase: nameOf(enums.LeasePhase, record.phase),
    ...pickFields(record, "source", "run"),
    expiresAtNs: toNs(record.expiresAt),
    renewal: renewal && toRenewal(renewal),
    endRequest: ending?.request && toEnd(ending.request),
    ending: ending && { cause: ending.cause, message: ending.message, atNs: toNs(ending.at) },
    result: result && resultFromMessage(result),
    /**
     * SHA-256 of the content that the user signed. Present only after the end of the lease, once the engine no longer keeps the data of the order and the
     * result.
     */
    orderHash: record.orderHash.length > 0 ? record.orderHash : undefined,
    waitingBecause: message.waitingBecause,
    /** The lease cannot be decommissioned, or its end cannot be written: an operator must act. */
    isStuck: message.stuck,
    /** Counts the leases that must end before this one, and lists the first few. */
    usedBy: usersFromMessage(message),
    endedAtNs: record.endedAt && toNs(record.endedAt),
    /** Counts events that are not yet in the history of the lease. */
    unpublished: record.outbox.length,
    traceparent: record.traceparent,
    revision: message.revision,
  };
}

function usersFromMessage({ usedBy, usedByCount }: muster.provision.v1.Lease) {
  const some = usedBy.map(({ id, type, phase, expiresAt }) => ({
    id,
    type,
    phase: nameOf(enums.LeasePhase, phase),
    expiresAtNs: toNs(expiresAt),
  }));
  return { count: usedByCount, some };
}

function resultFromMessage(message: muster.provision.v1.Result): Result {
  return {
    ...pickFields(message, "id", "type"),
    createdNs: toNs(message.created),
    state: STATES.nameOf(message.state) ?? "error",
    message: message.message,
    data: toTimeText(message.dataJson),
    signature: message.signature,
  };
}

export function toLeaseEvent(message: muster.provision.v1.LeaseEvent) {
  const { id, eventType, message: text, traceparent } = message;
  return { id, event: eventType, message: text, atNs: toNs(message.at), traceparent };
}

export function toCleanup(message: muster.provision.v1.CleanupResourcesReply) {
  return {
    steps: message.steps.map((step) => pickFields(step, "action", "kind", "namespace", "name", "lease", "because")),
    ...pickFields(message, "found", "removed", "suspected", "heldBecause"),
    schedule: toCleanupSchedule(message),
  };
}

export function toCleanupState(message: muster.provision.v1.GetCleanupReply) {
  return { ...pickFields(message, "heldBecause", "waitsFor"), schedule: toCleanupSchedule(message) };
}

export function toCleanupSchedule({ mode, nextLook }: Pick<muster.provision.v1.GetCleanupReply, "mode" | "nextLook">) {
  // Undefined if no scan follows, a scan is due now, or the engine does not know yet.
  return { mode, nextScanMs: nextLook ? Number(toNs(nextLook) / 1_000_000n) : undefined };
}

export function toEngineLoad(message: muster.provision.v1.GetCountersReply) {
  const { counters, used, capacity } = message;
  const active = Object.values(counters ?? {}).reduce((sum: number, count) => sum + count, 0);
  return {
    active,
    ...pickFields(message, "engine", "overdue", "unopened"),
    /** The amounts include leases that are being provisioned or decommissioned. */
    used: unitsFromMessage(used),
    /** Undefined, for all or for one unit, means no limit. */
    capacity: capacity && limitsFromMessage(capacity),
  };
}

function limitsFromMessage(units: muster.provision.v1.ResourceUnits): Partial<ReturnType<typeof unitsFromMessage>> {
  const { cru, mruBytes, sruBytes, hruBytes } = units;
  const limited = { cru, mruBytes, sruBytes, hruBytes };
  return Object.fromEntries(Object.entries(limited).filter(([, limit]) => (limit ?? UNLIMITED) < UNLIMITED));
}

/** The value that earlier engines send for no limit. */
const UNLIMITED = Number.MAX_SAFE_INTEGER;

function unitsFromMessage(units: muster.provision.v1.ResourceUnits | undefined) {
  const { cru = 0, mruBytes = 0, sruBytes = 0, hruBytes = 0 } = units ?? {};
  return { cru, mruBytes, sruBytes, hruBytes };
}
