import type { Fault } from "@muster/faults";
import { publicKeyOf } from "@muster/leases";

/** Whether the owner of the public key signed the content. */
export type Verify = (publicKey: Uint8Array, content: Uint8Array, signature: Uint8Array) => boolean;

/** Returns the fault of a user's signature; undefined if it is valid. */
export function verifySigned(
  { user, signature }: { readonly user: string; readonly signature: Uint8Array },
  content: Uint8Array,
  verify: Verify,
): Fault | undefined {
  const publicKey = publicKeyOf(user);
  if (publicKey === undefined)
    return wrong("user", `"${user.slice(0, 64)}" is not a user id: base58 of a public key of 32 bytes is needed`);
  if (signature.length === 0) return wrong("signature", "is missing");
  if (!verify(publicKey, content, signature))
    return wrong(
      "signature",
      "does not match this user and content: the content was altered, or another key signed it",
    );
  return undefined;
}

export function wrong(field: string, reason: string): Fault {
  return { code: "invalid_request", field, reason };
}
