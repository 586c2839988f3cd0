import { base58 } from "@scure/base";

export const PUBLIC_KEY_BYTES = 32;

/** The id by which a user signs: the public key in base58, Bitcoin's alphabet. */
export function buildUserId(publicKey: Uint8Array): string {
  return base58.encode(publicKey);
}

/** The public key of a user; undefined where the id is none, as the decimal ids of old are. */
export function parsePublicKey(userId: string): Uint8Array | undefined {
  try {
    const key = base58.decode(userId);
    return key.length === PUBLIC_KEY_BYTES ? key : undefined;
  } catch {
    return undefined;
  }
}
