import type { Fault } from "@muster/faults";
import { parsePublicKey, buildOrderBytes, type Order, type Result } from "@muster/leases";
import type { LeaseRecord } from "./lease.ts";

/** Whether the owner of the public key signed the content. */
export type VerifySignature = (publicKey: Uint8Array, content: Uint8Array, signature: Uint8Array) => boolean;

/** Returns the fault of a user's signature; undefined if it is valid. */
export function verifySigned(
  { user, signature }: { readonly user: string; readonly signature: Uint8Array },
  content: Uint8Array,
  verify: VerifySignature,
): Fault | undefined {
  const publicKey = parsePublicKey(user);
  if (publicKey === undefined)
    return buildSignatureFault(
      "user",
      `"${user.slice(0, 64)}" is not a user id: base58 of a public key of 32 bytes is needed`,
    );
  if (signature.length === 0) return buildSignatureFault("signature", "is missing");
  if (!verify(publicKey, content, signature))
    return buildSignatureFault(
      "signature",
      "does not match this user and content: the content was altered, or another key signed it",
    );
  return undefined;
}

export function buildSignatureFault(field: string, reason: string): Fault {
  return { code: "invalid_request", field, reason };
}

/** Computes SHA-256. */
export type ComputeDigest = (content: Uint8Array) => Uint8Array;

/** Returns the hash that identifies an order after its data are removed. */
export function hashOrder(order: Order, digest: ComputeDigest): Uint8Array {
  return digest(buildOrderBytes(order));
}

/** Whether an order equals the order of a lease in every signed byte. */
export function isOrderOf(order: Order, { order: own, orderHash }: LeaseRecord, digest: ComputeDigest): boolean {
  if (orderHash !== undefined) return isSame(hashOrder(order, digest), orderHash);
  return isSame(buildOrderBytes(order), buildOrderBytes(own));
}

function isSame(left: Uint8Array, right: Uint8Array): boolean {
  return left.length === right.length && left.every((byte, at) => byte === right[at]);
}

/** Builds the result of an order: the JSON from provisioning, or the error text. The caller signs it before it sends it. */
export function buildResult(
  { id, type }: Pick<Order, "id" | "type">,
  outcome: { readonly data: string } | { readonly error: string },
  nowNs: bigint,
): Omit<Result, "signature"> {
  return "data" in outcome
    ? { id, type, createdNs: nowNs, state: "ok", message: "", data: outcome.data }
    : { id, type, createdNs: nowNs, state: "error", message: outcome.error, data: "null" };
}
