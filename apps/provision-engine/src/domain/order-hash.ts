import { buildOrderBytes, type Order } from "@muster/leases";
import type { LeaseRecord } from "./lease.ts";

/** SHA-256. */
export type Digest = (content: Uint8Array) => Uint8Array;

/** By which an order is known again whose data are not kept. */
export function hashOrder(order: Order, digest: Digest): Uint8Array {
  return digest(buildOrderBytes(order));
}

/** Whether an order is the one of a lease, to the last byte of what is signed. */
export function isOrderOf(order: Order, { order: own, orderHash }: LeaseRecord, digest: Digest): boolean {
  if (orderHash !== undefined) return isSame(hashOrder(order, digest), orderHash);
  return isSame(buildOrderBytes(order), buildOrderBytes(own));
}

function isSame(left: Uint8Array, right: Uint8Array): boolean {
  return left.length === right.length && left.every((byte, at) => byte === right[at]);
}
