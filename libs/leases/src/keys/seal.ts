import { createCipheriv, createDecipheriv, hkdfSync } from "node:crypto";
import { throwFault } from "@muster/faults";
import { buildSealedBytes, buildSealingBytes } from "../build-signed-bytes.ts";
import { SEALED_PREFIX, type SealedPlace } from "../secret-fields.ts";
import { parsePublicKey } from "../user-id.ts";
import type { Signer } from "./ed25519.ts";
import { computeSharedSecret, computePublicKey, toX25519 } from "./x25519.ts";

const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const CIPHER = "aes-256-gcm";
const DOMAIN = "muster-lease-v1/sealed";

/**
 * Seals a text so that only the owner of the recipient's id (an ed25519 public key in base58) can open it, and only for this field. Deterministic for one
 * signer, so that a file sent twice has one order. The length stays visible. Throws FaultError invalid_request if the recipient's id is not a key.
 */
export function sealText(by: Signer, recipient: string, text: string, place: SealedPlace): string {
  const edwards = parsePublicKey(recipient);
  const noKey = `cannot be sealed: "${recipient.slice(0, 64)}" is no public key`;
  if (edwards === undefined) return refuse(place, noKey);
  const scalar = by.derive(buildSealingBytes(place, recipient, text));
  const own = computePublicKey(scalar);
  const their = toX25519(edwards);
  const { key, nonce } = deriveKey(
    computeShared(
      () => computeSharedSecret(scalar, their),
      () => refuse(place, noKey),
    ),
    own,
    their,
  );
  const cipher = createCipheriv(CIPHER, key, nonce).setAAD(buildSealedBytes(place));
  const sealed = [own, cipher.update(text, "utf8"), cipher.final(), cipher.getAuthTag()];
  return SEALED_PREFIX + Buffer.concat(sealed).toString("base64url");
}

/** Opens a text that was sealed to this key for this field. Otherwise throws FaultError invalid_request, which names the field but none of its content. */
export function openText(by: Signer, sealed: string, place: SealedPlace): string {
  const bytes = Buffer.from(sealed.slice(SEALED_PREFIX.length), "base64url");
  const own = bytes.subarray(0, KEY_BYTES);
  if (!sealed.startsWith(SEALED_PREFIX) || bytes.length < KEY_BYTES + TAG_BYTES) return refuse(place, NOT_OPENED);
  const { key, nonce } = deriveKey(
    computeShared(
      () => by.computeSharedSecret(own),
      () => refuse(place, NOT_OPENED),
    ),
    own,
    toX25519(by.publicKey),
  );
  const decipher = createDecipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES });
  decipher.setAAD(buildSealedBytes(place)).setAuthTag(bytes.subarray(-TAG_BYTES));
  const text = decipher.update(bytes.subarray(KEY_BYTES, -TAG_BYTES));
  try {
    return Buffer.concat([text, decipher.final()]).toString("utf8");
  } catch {
    return refuse(place, NOT_OPENED);
  }
}

const NOT_OPENED = "cannot be opened: it was sealed for another key, lease, user or field, or altered";

/** Derives a key that seals only one text, so that a derived nonce is safe. */
function deriveKey(shared: Uint8Array, own: Uint8Array, their: Uint8Array) {
  const bytes = Buffer.from(hkdfSync("sha256", shared, Buffer.concat([own, their]), DOMAIN, KEY_BYTES + NONCE_BYTES));
  return { key: bytes.subarray(0, KEY_BYTES), nonce: bytes.subarray(KEY_BYTES) };
}

/** node:crypto refuses weak public keys whose shared secret is public. */
function computeShared(agreed: () => Uint8Array, otherwise: () => never): Uint8Array {
  try {
    return agreed();
  } catch {
    return otherwise();
  }
}

function refuse({ field }: SealedPlace, reason: string): never {
  return throwFault({ code: "invalid_request", field: `data.${field}`, reason });
}
