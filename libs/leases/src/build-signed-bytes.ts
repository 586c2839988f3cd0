import type { EndRequest, Order, Renewal, Result, ResultState } from "./order.ts";
import type { SealedPlace } from "./secret-fields.ts";

type Unsigned<Signed> = Omit<Signed, "signature" | "signatureFormat">;
type Field = string | number | bigint;

/** Numbers of result states on every wire. */
export const STATE_NUMBER = { error: 0, ok: 1, deleted: 2 } as const satisfies Record<ResultState, number>;

/** What the user signs to order. */
export function buildOrderBytes(order: Unsigned<Order>): Uint8Array {
  const { id, engine, user, type, data, createdNs, durationNs, reference = "", version } = order;
  return buildFields("order", [id, engine, user, type, data, createdNs, durationNs, reference, version]);
}

/** What the user signs to renew: the time of the order makes it good for this order of the id, and for no later one. */
export function buildRenewalBytes(
  { id, engine, user, expiresAtNs, sequence }: Unsigned<Renewal>,
  order: Pick<Order, "createdNs">,
): Uint8Array {
  return buildFields("renewal", [id, engine, user, order.createdNs, expiresAtNs, sequence]);
}

/** What the user signs to end: of one order, as a renewal. */
export function buildEndBytes(
  { id, engine, user, createdNs }: Unsigned<EndRequest>,
  order: Pick<Order, "createdNs">,
): Uint8Array {
  return buildFields("end", [id, engine, user, order.createdNs, createdNs]);
}

/** What the engine signs of a result. */
export function buildResultBytes({ id, type, createdNs, state, message, data }: Unsigned<Result>): Uint8Array {
  return buildFields("result", [id, type, createdNs, STATE_NUMBER[state], message, data]);
}

/** What is sealed, without which no seal is opened: what was sealed for one field of one lease of one user is worth nothing as another's. */
export function buildSealedBytes({ kind, id, user, field }: SealedPlace): Uint8Array {
  return buildFields("sealed", [kind, id, user, field]);
}

/** From what a key of its own is made for each seal, so that one who seals the same again makes the same. */
export function buildSealingBytes(place: SealedPlace, recipient: string, text: string): Uint8Array {
  return buildFields("sealing", [place.kind, place.id, place.user, place.field, recipient, text]);
}

/** What the original's users sign: without separators, and without id, time, duration, reference and version. */
export function buildLegacyOrderBytes(order: Pick<Order, "engine" | "user" | "type" | "data">): Uint8Array {
  return new TextEncoder().encode(order.engine + order.user + order.type + order.data);
}

/**
 * A domain, so that no signature serves another purpose, then every field, each as its length in four bytes (big-endian) and its bytes, so that no two contents
 * have the same bytes. Numbers are decimal text, times are nanoseconds since 1970, an absent text is empty.
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
