import {
  formatDurationNs,
  formatRfc3339,
  parseDurationNs,
  parseRfc3339,
  type EndRequest,
  type Order,
  type Renewal,
  type Result,
} from "@muster/leases";
import type { Lease, LeaseEvent, SignedLease } from "../adapters/lease-messages.ts";
import { LEASE_NOUN } from "./lease-document.ts";
import { makeValueReader, type Path, type ValueReader } from "@muster/documents";
import type { ReadDocument } from "./read-document.ts";

type Fields = Readonly<Record<string, unknown>>;

/**
 * Builds the stable format for `-o json` and `-o yaml`. It keeps everything as signed, so that `readLeaseRecord` reads it and every reader can verify it: times
 * to the nanosecond, data as text, signatures in hexadecimal. `orderHash` replaces data that the engine no longer keeps.
 */
export function buildLeaseRecord(lease: Lease): Record<string, unknown> {
  const { order, phase, source, run, expiresAtNs, renewal, endRequest, ending, result, endedAtNs, ...others } = lease;
  const { waitingBecause, isStuck, usedBy, revision, traceparent, orderHash } = others;
  const { createdNs, durationNs, signature, ...signed } = order;
  return {
    kind: LEASE_NOUN,
    id: order.id,
    phase,
    expiresAt: formatRfc3339(expiresAtNs),
    waitingBecause,
    isStuck,
    usedBy: usedBy.some.map(({ expiresAtNs, ...user }) => ({ ...user, expiresAt: formatRfc3339(expiresAtNs) })),
    revision,
    order: {
      ...signed,
      createdAt: formatRfc3339(createdNs),
      duration: formatDurationNs(durationNs),
      signature: toHex(signature),
    },
    result: result && {
      state: result.state,
      message: result.message,
      data: result.data,
      createdAt: formatRfc3339(result.createdNs),
      signature: toHex(result.signature),
    },
    renewal: renewal && {
      expiresAt: formatRfc3339(renewal.expiresAtNs),
      sequence: renewal.sequence,
      signature: toHex(renewal.signature),
    },
    ending: ending && { cause: ending.cause, message: ending.message, at: formatRfc3339(ending.atNs) },
    endRequest: endRequest && {
      createdAt: formatRfc3339(endRequest.createdNs),
      signature: toHex(endRequest.signature),
    },
    endedAt: endedAtNs === undefined ? undefined : formatRfc3339(endedAtNs),
    orderHash: orderHash && toHex(orderHash),
    source,
    run,
    traceparent,
  };
}

export function buildLeaseEventRecord({ atNs, ...rest }: LeaseEvent): Record<string, unknown> {
  return { at: formatRfc3339(atNs), ...rest };
}

/** Reads the signed parts of a record and the end of the lease, or returns every problem of the record. Never throws. */
export function readLeaseRecord(value: unknown): ReadDocument<SignedLease> {
  const reader = makeValueReader();
  const top = fieldsOf(reader, [], value);
  if (top !== undefined && top["order"] === undefined) {
    reader.report([], "is no output of `muster lease get ID -o json`: it has no order");
    return { ok: false, findings: reader.findings };
  }
  const given = top && fieldsOf(reader, ["order"], top["order"]);
  if (top === undefined || given === undefined) return { ok: false, findings: reader.findings };
  const order = readOrder(reader, given);
  const { id, engine, user, type } = order;
  const part = <Part>(name: string, read: (fields: Fields, path: Path) => Part): Part | undefined => {
    const fields = top[name] === undefined ? undefined : fieldsOf(reader, [name], top[name]);
    return fields && read(fields, [name]);
  };
  const signed: SignedLease = {
    order,
    phase: reader.text(["phase"], top["phase"]) ?? "",
    expiresAtNs: readTime(reader, ["expiresAt"], top["expiresAt"]),
    renewal: part("renewal", (fields, path): Renewal => ({
      ...{ id, engine, user },
      expiresAtNs: readTime(reader, [...path, "expiresAt"], fields["expiresAt"]),
      sequence: readCount(reader, [...path, "sequence"], fields["sequence"]),
      signature: readBytes(reader, [...path, "signature"], fields["signature"]),
    })),
    endRequest: part("endRequest", (fields, path): EndRequest => ({
      ...{ id, engine, user },
      createdNs: readTime(reader, [...path, "createdAt"], fields["createdAt"]),
      signature: readBytes(reader, [...path, "signature"], fields["signature"]),
    })),
    result: part("result", (fields, path): Result => ({
      ...{ id, type },
      createdNs: readTime(reader, [...path, "createdAt"], fields["createdAt"]),
      state: reader.oneOf([...path, "state"], fields["state"], ["error", "ok", "deleted"]) ?? "error",
      message: reader.text([...path, "message"], fields["message"]) ?? "",
      data: reader.text([...path, "data"], fields["data"]) ?? "",
      signature: readBytes(reader, [...path, "signature"], fields["signature"]),
    })),
    orderHash: top["orderHash"] === undefined ? undefined : readBytes(reader, ["orderHash"], top["orderHash"]),
  };
  return reader.findings.length > 0 ? { ok: false, findings: reader.findings } : { ok: true, value: signed };
}

function readOrder(reader: ValueReader, fields: Fields): Order {
  const text = (name: string): string => reader.text(["order", name], fields[name]) ?? "";
  const duration = text("duration");
  const durationNs = parseDurationNs(duration);
  if (durationNs === undefined && duration !== "") reader.report(["order", "duration"], "must be a duration");
  const format = fields["signatureFormat"] ?? "muster-lease-v1";
  return {
    id: text("id"),
    engine: text("engine"),
    user: text("user"),
    type: text("type"),
    data: text("data"),
    createdNs: readTime(reader, ["order", "createdAt"], fields["createdAt"]),
    durationNs: durationNs ?? 0n,
    reference: fields["reference"] === undefined ? undefined : text("reference"),
    version: readCount(reader, ["order", "version"], fields["version"]),
    signature: readBytes(reader, ["order", "signature"], fields["signature"]),
    signatureFormat:
      reader.oneOf(["order", "signatureFormat"], format, ["muster-lease-v1", "legacy"]) ?? "muster-lease-v1",
  };
}

/** Accepts unknown fields, because later versions write more fields. */
function fieldsOf(reader: ValueReader, path: Path, value: unknown): Fields | undefined {
  const known = typeof value === "object" && value !== null ? Object.keys(value) : [];
  return reader.mapping(path, value, known);
}

function readTime(reader: ValueReader, path: Path, value: unknown): bigint {
  const text = reader.text(path, value);
  const ns = text === undefined ? undefined : parseRfc3339(text);
  if (text !== undefined && ns === undefined) reader.report(path, "must be a time such as 2030-01-31T12:00:00Z");
  return ns ?? 0n;
}

function readCount(reader: ValueReader, path: Path, value: unknown): number {
  return reader.integer(path, value, { min: 0, max: Number.MAX_SAFE_INTEGER }) ?? 0;
}

function readBytes(reader: ValueReader, path: Path, value: unknown): Uint8Array {
  const text = reader.text(path, value) ?? "";
  if (!/^(?:[0-9a-f]{2})*$/i.test(text)) reader.report(path, "must be hexadecimal");
  return new Uint8Array((text.match(/../g) ?? []).map((pair) => Number.parseInt(pair, 16)));
}

function toHex(bytes: Uint8Array): string {
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
