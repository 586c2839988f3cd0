import type { EndRequest, Order, Renewal, Result, ResultState } from "./order.ts";
import type { SealedPlace } from "./secret-fields.ts";

type Unsigned<Signed> = Omit<Signed, "signature" | "signatureFormat">;
type Field = string | number | bigint;

/** Wire numbers of result states. */
const STATE_NUMBER = { error: 0, ok: 1, deleted: 2 } as const satisfies Record<ResultState, number>;

/** The bytes that a user signs in an order. */
export function buildOrderBytes(order: Unsigned<Order>): Uint8Array {
  const { id, engine, user, type, data, createdNs, durationNs, reference = "", version } = order;
  return buildFields("order", [id, engine, user, type, data, createdNs, durationNs, reference, version]);
}

/** The bytes that a user signs in a renewal. The time of the order limits it to this order of the id. */
export function buildRenewalBytes(
  { id, engine, user, expiresAtNs, sequence }: Unsigned<Renewal>,
  order: Pick<Order, "createdNs">,
): Uint8Array {
  return buildFields("renewal", [id, engine, user, order.createdNs, expiresAtNs, sequence]);
}

/** The bytes that a user signs in an end, limited to one order like a renewal. */
export function buildEndBytes(
  { id, engine, user, createdNs }: Unsigned<EndRequest>,
  order: Pick<Order, "createdNs">,
): Uint8Array {
  return buildFields("end", [id, engine, user, order.createdNs, createdNs]);
}

/** The bytes that the engine signs in a result. */
export function buildResultBytes({ id, type, createdNs, state, message, data }: Unsigned<Result>): Uint8Array {
  return buildFields("result", [id, type, createdNs, STATE_NUMBER[state], message, data]);
}

/** Authenticated data of a seal: a text that is sealed for one field of one lease cannot be opened in another. */
export function buildSealedBytes({ kind, id, user, field }: SealedPlace): Uint8Array {
  return buildFields("sealed", [kind, id, user, field]);
}

/** Input of the key of a seal, so that sealing the same text again with the same signer gives the same result. */
export function buildSealingBytes(place: SealedPlace, recipient: string, text: string): Uint8Array {
  return buildFields("sealing", [place.kind, place.id, place.user, place.field, recipient, text]);
}

/** The bytes that users of the original system sign: without separators, id, time, duration, reference and version. */
export function buildLegacyOrderBytes(order: Pick<Order, "engine" | "user" | "type" | "data">): Uint8Array {
  return new TextEncoder().encode(order.engine + order.user + order.type + order.data);
}

/**
 * Encodes a domain, so that no signature serves another purpose, and all fields. Each field has its length in four bytes (big-endian) before its bytes, so that
 * the encoding is unique. Numbers are decimal text, times nanoseconds since 1970, and a missing text is empty.
 */
function buildFields(domain: string, fields: readonly Field[]): Uint8Array {
  const parts = [`muster-lease-v1/${domain}`, ...fields].map((field) => new TextEncoder().encode(String(field)));
  const bytes = new Uint8Array(parts.reduce((sum, { length }) => sum + 4 + length, 0));
  const view = new DataView(bytes.buffer);
  let at = 0;
  for (const part of parts) {
    view.setUint32(at, part.length);
    bytes.set(part, at + 4);
    at += 4 + part.length;
  }
  return bytes;
}
