import type { Lease, SignedLease } from "../adapters/lease-messages.ts";
import {
  buildOrderBytes,
  MAX_DURATION_NS,
  formatDurationNs,
  type EndRequest,
  type Order,
  type Renewal,
} from "@muster/leases";
import type { WaitVerdict, WaitGoal } from "./decide-wait.ts";
import type { LeaseDocument } from "./lease-document.ts";

export const LEASE_PHASES = ["ORDERED", "PROVISIONING", "ACTIVE", "DECOMMISSIONING", "ENDED", "FAILED"] as const;

type Unsigned<Signed> = Omit<Signed, "signature">;

/** Builds an id that is very likely unique, from the time and 32 random bits. */
export function buildLeaseId(nowMs: number, uuid: string): string {
  return `${nowMs}-${Number.parseInt(uuid.slice(0, 8), 16)}`;
}

/** Builds the content to sign for an order of this document that starts now. */
export function buildOrder(
  { engine, type, durationNs, data, reference }: LeaseDocument,
  { id, user, createdNs }: { readonly id: string; readonly user: string; readonly createdNs: bigint },
): Unsigned<Order> {
  const signatureFormat = "muster-lease-v1";
  return { id, engine, user, type, data, createdNs, durationNs, reference, version: 0, signatureFormat };
}

/** Computes SHA-256. */
type Digest = (content: Uint8Array) => Uint8Array;

export type OrderPlan =
  /** `again` sends the existing order: the engine publishes its result again, or retries the failed lease. */
  { readonly send: "again" } | { readonly send: "new" } | { readonly send: "nothing"; readonly because: string };

/** Plans the message for a document with an id, if a lease of this id may exist. */
export function planOrder(document: LeaseDocument, user: string, found: Lease | undefined, digest: Digest): OrderPlan {
  if (found === undefined) return { send: "new" };
  const other = findDifference(document, user, found, digest);
  if (other !== undefined)
    return { send: "nothing", because: `lease ${found.order.id} exists already, ${other}; an id is used once` };
  if (found.phase === "ENDED")
    return { send: "nothing", because: `lease ${found.order.id} has ended, and an id is used once` };
  return { send: "again" };
}

/** Returns the first difference between lease and document; undefined if the lease is the one that the document orders. */
function findDifference(
  { engine, type, durationNs, data, reference }: LeaseDocument,
  user: string,
  found: SignedLease,
  digest: Digest,
): string | undefined {
  const { order } = found;
  if (order.user !== user) return `of user ${order.user}`;
  if (order.engine !== engine) return `of engine ${order.engine}`;
  if (order.type !== type) return `of type ${order.type}`;
  if (order.durationNs !== durationNs) return `for ${formatDurationNs(order.durationNs)}`;
  if (!isDataOf(found, data, digest)) return "with other data";
  return order.reference === reference ? undefined : `with ${order.reference ?? "no"} reference`;
}

/** Compares the hash if the engine no longer keeps the data. */
function isDataOf({ order, orderHash }: SignedLease, data: string, digest: Digest): boolean {
  if (orderHash === undefined) return order.data === data;
  const hash = digest(buildOrderBytes({ ...order, data }));
  return hash.length === orderHash.length && hash.every((byte, at) => byte === orderHash[at]);
}

/** Builds the content to sign for a lease to end later by this time. */
export function buildRenewal({ order, renewal, expiresAtNs }: SignedLease, forNs: bigint): Unsigned<Renewal> {
  const { id, engine, user, createdNs } = order;
  const never = createdNs + MAX_DURATION_NS;
  const desired = expiresAtNs + forNs;
  return { id, engine, user, expiresAtNs: desired < never ? desired : never, sequence: (renewal?.sequence ?? 0) + 1 };
}

/** Builds the content to sign for a lease to end now. */
export function buildEnd({ order: { id, engine, user } }: SignedLease, createdNs: bigint): Unsigned<EndRequest> {
  return { id, engine, user, createdNs };
}

/** Returns whether the lease is fully decommissioned. */
export function isLeaseOver({ phase }: Pick<Lease, "phase">): boolean {
  return phase === "ENDED" || phase === "FAILED";
}

/** Returns whether a cause other than its user or its time ended the lease. Of the phases, only FAILED shows such a cause. */
export function isEndUnexpected({ phase, ending }: Pick<Lease, "phase" | "ending">): boolean {
  return phase === "FAILED" || ending?.cause === "CRASHED" || ending?.cause === "PROVISION_FAILED";
}

/** Decides whether a lease is in the phase of the goal, or outside it. `delete` waits until the lease is fully decommissioned. */
export function decideLeaseCondition(lease: Pick<Lease, "phase">, goal: WaitGoal): WaitVerdict {
  if (goal.kind === "delete") return isLeaseOver(lease) ? "met" : "open";
  const phase = goal.type.toUpperCase();
  if ((lease.phase === phase) === goal.isTrue) return "met";
  return isLeaseOver(lease) || (goal.isTrue && isBehind(phase, lease.phase)) ? "never" : "open";
}

/** The order of phases; a lease never returns to an earlier one. */
const PHASE_ORDER: readonly string[] = ["ORDERED", "PROVISIONING", "ACTIVE", "DECOMMISSIONING"];

function isBehind(phase: string, now: string): boolean {
  return PHASE_ORDER.includes(phase) && PHASE_ORDER.indexOf(phase) < PHASE_ORDER.indexOf(now);
}
