import type { Fault } from "@muster/faults";
import type { Order } from "@muster/leases";
import type { LeaseEvent, LeaseRecord } from "./lease.ts";

/** What one user may have at once. */
export type QuotaPolicy = {
  /** Leases that are not over. */
  readonly maxLeases: number;
  /** About, of records; those of leases that are over are among them until they go. */
  readonly maxBytes: number;
};

/** What a user has. */
export type Usage = { readonly leases: number; readonly bytes: number };

/** What a record weighs beside its texts, and what an event of it does: from above, for what is usual. */
const RECORD_BYTES = 700;
const EVENT_BYTES = 200;
/** Leases end meanwhile. */
const RETRY_MS = 60_000;

/** Why a user that has so much may not have that much more; undefined: it may. */
export function decideQuota(user: string, added: Usage, usage: Usage, policy: QuotaPolicy): Fault | undefined {
  const { maxLeases, maxBytes } = policy;
  // No end of others would ever make room for what is too large by itself.
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

/** Whether it counts as one lease of its user. */
export function isAlive({ phase }: Pick<LeaseRecord, "phase">): boolean {
  return phase !== "ENDED" && phase !== "FAILED";
}

/** About what a record weighs. */
export function recordBytes({ order, result, trouble, ending, outbox }: LeaseRecord): number {
  const texts = [order.data, result?.data ?? "", result?.message ?? "", ending?.message ?? "", trouble];
  const bytes = texts.reduce((sum, text) => sum + Buffer.byteLength(text), RECORD_BYTES);
  return bytes + eventBytes(outbox);
}

/** About what events weigh. */
export function eventBytes(events: readonly Pick<LeaseEvent, "message">[]): number {
  return events.reduce((sum, { message }) => sum + EVENT_BYTES + Buffer.byteLength(message), 0);
}

/** What the record of a lease that has no result yet may still grow by: a result may have all that its order has. */
export function promisedBytes({ order, phase }: Pick<LeaseRecord, "order" | "phase">): number {
  return phase === "ORDERED" || phase === "PROVISIONING" ? Buffer.byteLength(order.data) : 0;
}

/** What the record of a lease grows by when it is begun anew: data that it does not keep come back with its order. */
export function regainedBytes({ orderHash }: Pick<LeaseRecord, "orderHash">, { data }: Pick<Order, "data">): number {
  return orderHash === undefined ? 0 : Buffer.byteLength(data);
}
