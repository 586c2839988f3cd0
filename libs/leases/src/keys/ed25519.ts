import {
  createHmac,
  createPrivateKey,
  createPublicKey,
  hash,
  randomBytes,
  sign,
  verify,
  type KeyObject,
} from "node:crypto";
import { throwFault } from "@muster/faults";
import { PUBLIC_KEY_BYTES, buildUserId } from "../user-id.ts";
import { computeSharedSecret } from "./x25519.ts";

/** Signs with one private key, which cannot be read from it. */
export type Signer = {
  readonly publicKey: Uint8Array;
  /** The public key in base58. */
  readonly userId: string;
  /** 64 bytes, deterministic. */
  sign(content: Uint8Array): Uint8Array;
  /** The secret shared with the owner of an X25519 public key. Throws if the key is invalid. */
  computeSharedSecret(publicKey: Uint8Array): Uint8Array;
  /** 32 secret bytes, deterministic for this content and key. */
  derive(content: Uint8Array): Uint8Array;
};

const SEED_BYTES = 32;
const PRIVATE_KEY_BYTES = 64;
const SIGNATURE_BYTES = 64;

// DER header of an ed25519 key.
const PKCS8_HEAD = Buffer.from("302e020100300506032b657004220420", "hex");
const SPKI_HEAD = Buffer.from("302a300506032b6570032100", "hex");

/**
 * Reads a hexadecimal seed of 32 bytes, or the matching 64 bytes of seed and public key. Throws FaultError invalid_request, which names the field and never the
 * key.
 */
export function readSigner(field: string, text: string): Signer {
  const hex = text.trim();
  const bytes = /^(?:[0-9a-f]{2})*$/i.test(hex) ? Buffer.from(hex, "hex") : Buffer.alloc(0);
  if (bytes.length !== SEED_BYTES && bytes.length !== PRIVATE_KEY_BYTES) {
    return throwFault({
      code: "invalid_request",
      field,
      reason: `is no private key: ${SEED_BYTES} or ${PRIVATE_KEY_BYTES} bytes in hexadecimal are needed`,
    });
  }
  const signer = buildSigner(bytes.subarray(0, SEED_BYTES));
  if (bytes.length === PRIVATE_KEY_BYTES && !bytes.subarray(SEED_BYTES).equals(signer.publicKey))
    return throwFault({
      code: "invalid_request",
      field,
      reason: "its public half does not belong to its private half",
    });
  return signer;
}

/** Creates a key, and the text that `readSigner` reads. */
export function makeSigner(): { readonly signer: Signer; readonly text: string } {
  const seed = randomBytes(SEED_BYTES);
  return { signer: buildSigner(seed), text: seed.toString("hex") };
}

function buildSigner(seed: Uint8Array): Signer {
  const key = createPrivateKey({ key: Buffer.concat([PKCS8_HEAD, seed]), format: "der", type: "pkcs8" });
  const publicKey = rawPublicKey(createPublicKey(key));
  // Ed25519 uses this half of the hash as its scalar, so that the X25519 public key follows from the ed25519 one.
  const scalar = hash("sha512", seed, "buffer").subarray(0, SEED_BYTES);
  return {
    publicKey,
    userId: buildUserId(publicKey),
    sign: (content) => new Uint8Array(sign(null, content, key)),
    computeSharedSecret: (other) => computeSharedSecret(scalar, other),
    derive: (content) => new Uint8Array(createHmac("sha256", seed).update(content).digest()),
  };
}

function rawPublicKey(key: KeyObject): Uint8Array {
  return new Uint8Array(key.export({ format: "der", type: "spki" }).subarray(SPKI_HEAD.length));
}

/** SHA-256 of 32 bytes. */
export function digest(content: Uint8Array): Uint8Array {
  return new Uint8Array(hash("sha256", content, "buffer"));
}

/** Verifies a signature. Returns false for invalid keys and signatures. */
export function verifySignature(publicKey: Uint8Array, content: Uint8Array, signature: Uint8Array): boolean {
  if (publicKey.length !== PUBLIC_KEY_BYTES || signature.length !== SIGNATURE_BYTES) return false;
  const key = createPublicKey({ key: Buffer.concat([SPKI_HEAD, publicKey]), format: "der", type: "spki" });
  return verify(null, content, key, signature);
}
