import type { Fault } from "@muster/faults";
import type { Order } from "@muster/leases";
import type { LeaseEvent, LeaseRecord } from "./lease.ts";

/** Limits of one user. */
export type QuotaPolicy = {
  /** Unfinished leases. */
  readonly maxLeases: number;
  /** Approximate size of all records of the user, finished leases included until they are removed. */
  readonly maxBytes: number;
};

/** Current usage of a user. */
export type UserUsage = { readonly leases: number; readonly bytes: number };

/** Upper estimates of a record without its texts, and of an event without its message. */
const RECORD_BYTES = 700;
const EVENT_BYTES = 200;
/** Pause after which other leases may have ended. */
const RETRY_MS = 60_000;

/** Returns the fault of the addition if the user would exceed a limit; undefined if the addition fits. */
export function decideQuota(user: string, added: UserUsage, usage: UserUsage, policy: QuotaPolicy): Fault | undefined {
  const { maxLeases, maxBytes } = policy;
  // A request that exceeds the limit alone can never succeed.
  const retryAfterMs = added.leases > maxLeases || added.bytes > maxBytes ? 0 : RETRY_MS;
  const refuse = (what: string, limit: number): Fault => ({
    code: "limit_exceeded",
    what: `${what} of user ${user}`,
    limit,
    retryAfterMs,
  });
  if (usage.leases + added.leases > maxLeases) return refuse("number of leases (PROVISION_USER_LEASES)", maxLeases);
  const bytes = usage.bytes + added.bytes;
  if (bytes > maxBytes) return refuse(`size of ${bytes} bytes of records of leases (PROVISION_USER_BYTES)`, maxBytes);
  return undefined;
}

/** Whether the lease counts toward its user's number of leases. */
export function isAlive({ phase }: Pick<LeaseRecord, "phase">): boolean {
  return phase !== "ENDED" && phase !== "FAILED";
}

/** Approximate size of a record. */
export function recordBytes({ order, result, trouble, ending, outbox }: LeaseRecord): number {
  const texts = [order.data, result?.data ?? "", result?.message ?? "", ending?.message ?? "", trouble];
  const bytes = texts.reduce((sum, text) => sum + Buffer.byteLength(text), RECORD_BYTES);
  return bytes + countEventBytes(outbox);
}

/** Approximate size of events. */
export function countEventBytes(events: readonly Pick<LeaseEvent, "message">[]): number {
  return events.reduce((sum, { message }) => sum + EVENT_BYTES + Buffer.byteLength(message), 0);
}

/** Maximum growth of a record without a result: a result may be as large as the data of its order. */
export function countPromisedBytes({ order, phase }: Pick<LeaseRecord, "order" | "phase">): number {
  return phase === "ORDERED" || phase === "PROVISIONING" ? Buffer.byteLength(order.data) : 0;
}

/** Growth of a compacted record that runs again, because its order restores its data. */
export function countRegainedBytes(
  { orderHash }: Pick<LeaseRecord, "orderHash">,
  { data }: Pick<Order, "data">,
): number {
  return orderHash === undefined ? 0 : Buffer.byteLength(data);
}

/** Fill level of a store. */
export type StoreSize = {
  readonly bytes: number;
  /** Undefined: no limit. */
  readonly maxBytes: number | undefined;
};

/** Share of the store that is reserved for the engine's own writes: leases must be able to become active and to end. */
const RESERVED_SHARE = 0.1;

type RoomVerdict = { readonly kind: "room" } | { readonly kind: "none"; readonly limit: number };

/** Decides whether a client's write fits, together with the bytes that the engine will still write for existing leases (`promised`). */
export function decideRoom({ bytes, maxBytes }: StoreSize, promised: number, added: number): RoomVerdict {
  if (maxBytes === undefined) return { kind: "room" };
  const limit = Math.floor(maxBytes * (1 - RESERVED_SHARE));
  return bytes + promised + added <= limit ? { kind: "room" } : { kind: "none", limit };
}

/** Maximum text of an event in a record that is too large. */
const MAX_BRIEF_CHARACTERS = 100;

/**
 * Shrinks a record that exceeds `maxBytes`, so that every lease can reach its end. First drops the request id and shortens long event texts, then drops the
 * unpublished history.
 */
export function buildStorable(
  record: LeaseRecord,
  bytesOf: (record: LeaseRecord) => number,
  maxBytes: number,
): LeaseRecord {
  if (bytesOf(record) <= maxBytes) return record;
  const brief = { ...record, requestId: "", outbox: record.outbox.map(shortenEvent) };
  return bytesOf(brief) <= maxBytes ? brief : { ...brief, outbox: [] };
}

function shortenEvent(event: LeaseEvent): LeaseEvent {
  return { ...event, message: event.message.slice(0, MAX_BRIEF_CHARACTERS) };
}
