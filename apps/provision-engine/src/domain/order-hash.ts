import { buildOrderBytes, type Order } from "@muster/leases";
import type { LeaseRecord } from "./lease.ts";

/** SHA-256. */
export type Digest = (content: Uint8Array) => Uint8Array;

/** Identifies an order whose data are not kept. */
export function hashOrder(order: Order, digest: Digest): Uint8Array {
  return digest(buildOrderBytes(order));
}

/** Whether an order equals the order of a lease in every signed byte. */
export function isOrderOf(order: Order, { order: own, orderHash }: LeaseRecord, digest: Digest): boolean {
  if (orderHash !== undefined) return isSame(hashOrder(order, digest), orderHash);
  return isSame(buildOrderBytes(order), buildOrderBytes(own));
}

function isSame(left: Uint8Array, right: Uint8Array): boolean {
  return left.length === right.length && left.every((byte, at) => byte === right[at]);
}
