import { muster, type PropertiesOf } from "@muster/proto";
import { toDuration, toNanoseconds, toTimestamp } from "../nanoseconds.ts";
import type { EndRequest, Order, Renewal } from "../order.ts";

const wire = muster.provision.v1;
const { SIGNATURE_FORMAT_LEGACY, SIGNATURE_FORMAT_UNSPECIFIED } = wire.SignatureFormat;

type WireOrder = PropertiesOf<typeof wire.Order>;
type WireRenewal = PropertiesOf<typeof wire.Renewal>;
type WireEnd = PropertiesOf<typeof wire.EndRequest>;
/** A decoded Timestamp or Duration; undefined if it is missing. */
type WireTime = { readonly seconds: number; readonly nanos: number } | undefined;

export function toWireOrder({ createdNs, durationNs, data, reference, signatureFormat, ...rest }: Order): WireOrder {
  return {
    ...rest,
    data: new TextEncoder().encode(data),
    created: toTimestamp(createdNs),
    duration: toDuration(durationNs),
    reference,
    signatureFormat: signatureFormat === "legacy" ? SIGNATURE_FORMAT_LEGACY : SIGNATURE_FORMAT_UNSPECIFIED,
  };
}

/** Converts an unverified order. Missing fields are empty or 0, which the decision refuses. Throws if its data are not text. */
export function toOrder(message: muster.provision.v1.Order): Order {
  return {
    id: message.id,
    engine: message.engine,
    user: message.user,
    type: message.type,
    data: toTimeText(message.data),
    createdNs: toNs(message.created),
    durationNs: toNs(message.duration),
    // Proto3 does not distinguish empty from missing.
    reference: message.reference === "" ? undefined : message.reference,
    version: message.version,
    signature: message.signature,
    signatureFormat: message.signatureFormat === SIGNATURE_FORMAT_LEGACY ? "legacy" : "muster-lease-v1",
  };
}

export function toWireRenewal({ expiresAtNs, ...rest }: Renewal): WireRenewal {
  return { ...rest, expiresAt: toTimestamp(expiresAtNs) };
}

/** Converts an unverified renewal. */
export function toRenewal(message: muster.provision.v1.Renewal): Renewal {
  const { id, engine, user, expiresAt, sequence, signature } = message;
  return { id, engine, user, expiresAtNs: toNs(expiresAt), sequence, signature };
}

export function toWireEnd({ createdNs, ...rest }: EndRequest): WireEnd {
  return { ...rest, created: toTimestamp(createdNs) };
}

/** Converts an unverified end. */
export function toEnd({ id, engine, user, created, signature }: muster.provision.v1.EndRequest): EndRequest {
  return { id, engine, user, createdNs: toNs(created), signature };
}

export function toNs(time: WireTime): bigint {
  return toNanoseconds(time ?? { seconds: 0, nanos: 0 });
}

/** Refuses bytes that are not UTF-8, whose text would differ from the signed text. */
export function toTimeText(bytes: Uint8Array): string {
  return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
}
