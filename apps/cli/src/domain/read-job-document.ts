import { checkSchema, valueReader, type CheckedSchema, type ValueReader } from "@muster/documents";
import { checkDnsSubdomain } from "@muster/names";
import type { ReadDocument } from "./read-document.ts";
import { GENERATED_LENGTH } from "./read-session-document.ts";

/** A manifest of a job, and its name: `prefix` gets random letters when it is submitted. */
export type JobDocument = {
  readonly name: { readonly exact: string } | { readonly prefix: string };
  readonly manifest: Readonly<Record<string, unknown>>;
};

/**
 * Reads one document's plain data as a job, or reports every problem in it. Never throws. Without a schema, where another project publishes the
 * definition, only the frame is checked: the job controller knows the rest.
 */
export function readJobDocument(
  value: unknown,
  apiVersion: string,
  schema: CheckedSchema | undefined,
): ReadDocument<JobDocument> {
  const reader = valueReader();
  checkSchema(reader, schema ?? frame(apiVersion), [], value);
  const manifest = isMapping(value) ? value : {};
  const { metadata } = manifest;
  const name = isMapping(metadata) ? readName(reader, metadata) : undefined;
  if (name === undefined || reader.findings.length > 0) return { ok: false, findings: reader.findings };
  return { ok: true, value: { name, manifest } };
}

/** The manifest by which a document is submitted: as it is, with the name that was made for it. */
export function nameManifest(
  manifest: JobDocument["manifest"],
  name: string,
  namespace?: string,
): Record<string, unknown> {
  const { metadata } = manifest;
  const { generateName: _left, ...rest } = isMapping(metadata) ? metadata : {};
  return { ...manifest, metadata: { ...rest, name, ...(namespace !== undefined && { namespace }) } };
}

/** The namespace that a manifest names. */
export function namespaceOf({ metadata }: JobDocument["manifest"]): unknown {
  return isMapping(metadata) ? metadata["namespace"] : undefined;
}

function frame(apiVersion: string): CheckedSchema {
  const any = { type: "object" };
  return {
    type: "object",
    required: ["apiVersion", "kind", "metadata", "spec"],
    properties: { apiVersion: { const: apiVersion }, metadata: any, spec: any },
  };
}

function readName(reader: ValueReader, metadata: Readonly<Record<string, unknown>>): JobDocument["name"] | undefined {
  const path = ["metadata"];
  const { name, generateName } = metadata;
  const given = name ?? generateName;
  if (given === undefined) {
    reader.report(path, "lacks name (or generateName, to which random letters are added)");
    return undefined;
  }
  const field = name === undefined ? "generateName" : "name";
  const text = reader.text([...path, field], given);
  if (text === undefined) return undefined;
  // Whatever letters follow, the whole is a name when it is one with these.
  const sample = field === "name" ? text : text + "x".repeat(GENERATED_LENGTH);
  const fault = checkDnsSubdomain(field, sample);
  if (fault?.code === "invalid_request") reader.report([...path, field], fault.reason);
  return field === "name" ? { exact: text } : { prefix: text };
}

function isMapping(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
