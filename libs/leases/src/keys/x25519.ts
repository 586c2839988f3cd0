import { createPrivateKey, createPublicKey, diffieHellman } from "node:crypto";

/** Prime of the field of both curves. */
const PRIME = 2n ** 255n - 19n;
const KEY_BYTES = 32;

// DER header of an X25519 key.
const PKCS8_HEAD = Buffer.from("302e020100300506032b656e04220420", "hex");
const SPKI_HEAD = Buffer.from("302a300506032b656e032100", "hex");

/** Computes the shared secret of two key owners. Throws if the public key is invalid, or is one of the weak keys whose shared secret is public. */
export function computeSharedSecret(scalar: Uint8Array, publicKey: Uint8Array): Uint8Array {
  const other = createPublicKey({ key: Buffer.concat([SPKI_HEAD, publicKey]), format: "der", type: "spki" });
  return new Uint8Array(diffieHellman({ privateKey: importPrivateKey(scalar), publicKey: other }));
}

/** The public key of a 32-byte scalar. */
export function computePublicKey(scalar: Uint8Array): Uint8Array {
  const key = createPublicKey(importPrivateKey(scalar)).export({ format: "der", type: "spki" });
  return new Uint8Array(key.subarray(SPKI_HEAD.length));
}

/** Converts a key between the curves: u = (1 + y) / (1 - y) of RFC 7748, which node:crypto lacks. */
export function toX25519(ed25519PublicKey: Uint8Array): Uint8Array {
  // The highest bit is the sign of x, which does not affect u.
  const y = fromLittleEndian(ed25519PublicKey) % 2n ** 255n;
  return toLittleEndian(mod((1n + y) * inverse(mod(1n - y))));
}

function importPrivateKey(scalar: Uint8Array) {
  return createPrivateKey({ key: Buffer.concat([PKCS8_HEAD, scalar]), format: "der", type: "pkcs8" });
}

function mod(value: bigint): bigint {
  return ((value % PRIME) + PRIME) % PRIME;
}

/** Inverse by Fermat's little theorem; the inverse of 0 is 0. */
function inverse(value: bigint): bigint {
  let result = 1n;
  let base = value;
  for (let exponent = PRIME - 2n; exponent > 0n; exponent >>= 1n) {
    if ((exponent & 1n) === 1n) result = mod(result * base);
    base = mod(base * base);
  }
  return result;
}

function fromLittleEndian(bytes: Uint8Array): bigint {
  return bytes.reduceRight((sum, byte) => (sum << 8n) + BigInt(byte), 0n);
}

function toLittleEndian(value: bigint): Uint8Array {
  return Uint8Array.from({ length: KEY_BYTES }, (_, at) => Number((value >> BigInt(8 * at)) & 255n));
}
