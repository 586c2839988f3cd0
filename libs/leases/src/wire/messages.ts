import { muster, type PropertiesOf } from "@muster/proto";
import { durationOf, nsFrom, timestampOf } from "../nanoseconds.ts";
import type { EndRequest, Order, Renewal } from "../order.ts";

const wire = muster.provision.v1;
const { SIGNATURE_FORMAT_LEGACY, SIGNATURE_FORMAT_UNSPECIFIED } = wire.SignatureFormat;

export type WireOrder = PropertiesOf<typeof wire.Order>;
export type WireRenewal = PropertiesOf<typeof wire.Renewal>;
export type WireEnd = PropertiesOf<typeof wire.EndRequest>;
/** A Timestamp or a Duration as it was decoded. */
export type WireTime = { readonly seconds?: number | null; readonly nanos?: number | null } | null | undefined;

export function toWireOrder({ createdNs, durationNs, data, reference, signatureFormat, ...rest }: Order): WireOrder {
  return {
    ...rest,
    data: new TextEncoder().encode(data),
    created: timestampOf(createdNs),
    duration: durationOf(durationNs),
    reference: reference ?? "",
    signatureFormat: signatureFormat === "legacy" ? SIGNATURE_FORMAT_LEGACY : SIGNATURE_FORMAT_UNSPECIFIED,
  };
}

/** An order as it came, not yet verified: what is missing is empty or 0, and is refused by whoever decides about it. Throws where its data are no text. */
export function toOrder(message: WireOrder): Order {
  return {
    id: message.id ?? "",
    engine: message.engine ?? "",
    user: message.user ?? "",
    type: message.type ?? "",
    data: textOf(message.data),
    createdNs: toNs(message.created),
    durationNs: toNs(message.duration),
    // An empty one is none: on the wire they are the same.
    reference: message.reference ? message.reference : undefined,
    version: message.version ?? 0,
    signature: message.signature ?? new Uint8Array(),
    signatureFormat: message.signatureFormat === SIGNATURE_FORMAT_LEGACY ? "legacy" : "muster-lease-v1",
  };
}

export function toWireRenewal({ expiresAtNs, ...rest }: Renewal): WireRenewal {
  return { ...rest, expiresAt: timestampOf(expiresAtNs) };
}

/** A renewal as it came, not yet verified. */
export function toRenewal(message: WireRenewal): Renewal {
  const { id, engine, user, sequence, signature } = message;
  return {
    id: id ?? "",
    engine: engine ?? "",
    user: user ?? "",
    expiresAtNs: toNs(message.expiresAt),
    sequence: sequence ?? 0,
    signature: signature ?? new Uint8Array(),
  };
}

export function toWireEnd({ createdNs, ...rest }: EndRequest): WireEnd {
  return { ...rest, created: timestampOf(createdNs) };
}

/** A wish to end as it came, not yet verified. */
export function toEnd(message: WireEnd): EndRequest {
  const { id, engine, user, signature } = message;
  return {
    id: id ?? "",
    engine: engine ?? "",
    user: user ?? "",
    createdNs: toNs(message.created),
    signature: signature ?? new Uint8Array(),
  };
}

export function toNs(time: WireTime): bigint {
  return nsFrom({ seconds: time?.seconds ?? 0, nanos: time?.nanos ?? 0 });
}

/** Bytes that are no UTF-8 are refused: as text they would be something else than what was signed. */
export function textOf(bytes: Uint8Array | null | undefined): string {
  return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes ?? new Uint8Array());
}
