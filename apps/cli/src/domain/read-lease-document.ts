import { checkSchema, describeUnknownField, makeValueReader, type Path, type ValueReader } from "@muster/documents";
import { findFault } from "@muster/faults";
import { splitId } from "@muster/leases";
import { readData as readLeaseData, type LeaseType } from "@muster/leases/data";
import { readJson } from "./find-non-json.ts";
import { readLeaseDuration } from "./lease-duration.ts";
import { toFields, type ReadDocument } from "./read-document.ts";
import { DEFAULT_ENGINE, ENGINE_PATTERN, LEASE_FORM, LEASE_TYPES, type LeaseDocument } from "./lease-document.ts";

const ENGINE = new RegExp(ENGINE_PATTERN);

/** Reads plain data as a lease, or reports every problem in it. Never throws. The schema for editors checks the form; this function checks the rest. */
export function readLeaseDocument(value: unknown): ReadDocument<LeaseDocument> {
  const reader = makeValueReader();
  checkSchema(reader, LEASE_FORM, [], value);
  const { metadata, spec } = toFields(value);
  const { engine = DEFAULT_ENGINE, duration, data = null, ...rest } = toFields(spec);
  const id = readId(reader, ["metadata", "name"], toFields(metadata)["name"]);
  const durationNs = typeof duration === "string" ? readDuration(reader, duration) : undefined;
  const type = LEASE_TYPES.find((each) => each === rest["type"]);
  const json = type && readData(reader, type, data);
  if (typeof engine === "string" && !ENGINE.test(engine))
    reader.report(["spec", "engine"], "must have lower case letters, digits, - and _, and 63 at most");
  const reference = readId(reader, ["spec", "reference"], rest["reference"]);
  const isComplete = type !== undefined && durationNs !== undefined && json !== undefined && typeof engine === "string";
  if (!isComplete || reader.findings.length > 0) return { ok: false, findings: reader.findings };
  return { ok: true, value: { id, engine, type, durationNs, data: json, reference } };
}

function readId(reader: ValueReader, path: Path, id: unknown): string | undefined {
  if (typeof id !== "string") return undefined;
  try {
    splitId(id);
  } catch (error) {
    if (findFault(error)?.code !== "invalid_request") throw error;
    reader.report(path, `NUMBER-NUMBER is needed, such as 4711-1, each below 2^64, and not "${id.slice(0, 64)}"`);
  }
  return id;
}

function readDuration(reader: ValueReader, text: string): bigint | undefined {
  const read = readLeaseDuration(text);
  if ("ns" in read) return read.ns;
  reader.report(["spec", "duration"], read.trouble);
  return undefined;
}

function readData(reader: ValueReader, type: LeaseType, data: unknown): string | undefined {
  const path = ["spec", "data"];
  const json = readJson(reader, path, data);
  if (json === undefined) return undefined;
  const read = readLeaseData(type, json);
  if (read.ok) return json;
  for (const { path: at, reason, known } of read.problems)
    if (known === undefined) reader.report([...path, ...at], reason);
    else reader.report([...path, ...at], describeUnknownField(String(at.at(-1)), known), "key");
  return undefined;
}
