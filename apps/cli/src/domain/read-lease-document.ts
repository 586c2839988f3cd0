import { faultOf } from "@muster/faults";
import { splitId } from "@muster/leases";
import { readData as readLeaseData, type LeaseType } from "@muster/leases/data";
import { findNonJson } from "./find-non-json.ts";
import { readLeaseDuration } from "./lease-duration.ts";
import { ENGINE_DEFAULT, ENGINE_PATTERN, LEASE_KIND, LEASE_TYPES, type LeaseDocument } from "./lease-document.ts";
import { describeUnknownField, valueReader, type Finding, type Path, type ValueReader } from "@muster/documents";
import { API_VERSION } from "./session-document.ts";

export type ReadLease =
  | { readonly ok: true; readonly document: LeaseDocument }
  | { readonly ok: false; readonly findings: readonly Finding[] };

const ENGINE = new RegExp(ENGINE_PATTERN);

/** Reads one document's plain data as a lease, or says everything that is wrong with it. Never throws. */
export function readLeaseDocument(value: unknown): ReadLease {
  const reader = valueReader();
  const document = readDocument(reader, value);
  return document === undefined || reader.findings.length > 0
    ? { ok: false, findings: reader.findings }
    : { ok: true, document };
}

function readDocument(reader: ValueReader, value: unknown): LeaseDocument | undefined {
  const top = reader.mapping([], value, ["apiVersion", "kind", "metadata", "spec"]);
  if (top === undefined) return undefined;
  for (const field of ["apiVersion", "kind", "spec"]) if (top[field] === undefined) reader.report([], `lacks ${field}`);
  if (top["apiVersion"] !== undefined) reader.oneOf(["apiVersion"], top["apiVersion"], [API_VERSION]);
  if (top["kind"] !== undefined) reader.oneOf(["kind"], top["kind"], [LEASE_KIND]);
  const metadata = optional(top["metadata"], (given) => reader.mapping(["metadata"], given, ["name"]));
  const id = optional(metadata?.["name"], (given) => readId(reader, ["metadata", "name"], given));
  const fields = ["engine", "type", "duration", "data", "reference"];
  const spec = optional(top["spec"], (given) => reader.mapping(["spec"], given, fields));
  if (spec === undefined) return undefined;
  for (const field of ["type", "duration"]) if (spec[field] === undefined) reader.report(["spec"], `lacks ${field}`);
  const type = optional(spec["type"], (given) => reader.oneOf(["spec", "type"], given, LEASE_TYPES));
  const durationNs = optional(spec["duration"], (given) => readDuration(reader, given));
  const data = type && readData(reader, type, spec["data"]);
  const engine = readEngine(reader, spec["engine"] ?? ENGINE_DEFAULT);
  const reference = optional(spec["reference"], (given) => readId(reader, ["spec", "reference"], given));
  if (type === undefined || durationNs === undefined || data === undefined || engine === undefined) return undefined;
  return { id, engine, type, durationNs, data, reference };
}

function readId(reader: ValueReader, path: Path, value: unknown): string | undefined {
  const id = reader.text(path, value);
  if (id === undefined) return undefined;
  try {
    splitId(id);
  } catch (error) {
    if (faultOf(error)?.code !== "invalid_request") throw error;
    reader.report(path, `NUMBER-NUMBER is needed, such as 4711-1, each below 2^64, and not "${id.slice(0, 64)}"`);
  }
  return id;
}

function readEngine(reader: ValueReader, value: unknown): string | undefined {
  const path = ["spec", "engine"];
  const engine = reader.text(path, value);
  if (engine !== undefined && !ENGINE.test(engine))
    reader.report(path, "must have lower case letters, digits, - and _, and 63 at most");
  return engine;
}

function readDuration(reader: ValueReader, value: unknown): bigint | undefined {
  const path = ["spec", "duration"];
  const text = reader.text(path, value);
  if (text === undefined) return undefined;
  const read = readLeaseDuration(text);
  if ("ns" in read) return read.ns;
  reader.report(path, read.trouble);
  return undefined;
}

/** As JSON. */
function readData(reader: ValueReader, type: LeaseType, value: unknown): string | undefined {
  const path = ["spec", "data"];
  const data = value ?? null;
  const odd = findNonJson(data, path);
  if (odd !== undefined) {
    reader.report(odd, "cannot be handed on as JSON; write it as a string");
    return undefined;
  }
  const json = JSON.stringify(data);
  const read = readLeaseData(type, json);
  if (read.ok) return json;
  for (const { path: at, reason, known } of read.problems)
    if (known === undefined) reader.report([...path, ...at], reason);
    else reader.report([...path, ...at], describeUnknownField(String(at.at(-1)), known), "key");
  return undefined;
}

function optional<Given, Value>(given: Given | undefined, read: (given: Given) => Value): Value | undefined {
  return given === undefined ? undefined : read(given);
}
