import { createHash } from "node:crypto";
import { base32nopad } from "@scure/base";

const ID_BYTES = 20;

/** Id of a user's network: 32 characters that fit the name of a namespace. User and name are kept apart, so ("12", "net") and ("1", "2net") differ. */
export function networkId(user: string, name: string): string {
  const digest = createHash("sha256")
    .update(`${Buffer.byteLength(user)}:${user}${name}`)
    .digest();
  return base32nopad.encode(digest.subarray(0, ID_BYTES)).toLowerCase();
}
