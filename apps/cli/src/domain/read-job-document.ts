import { checkSchema, findUnknownKeys, makeValueReader, type CheckedSchema } from "@muster/documents";
import { checkDnsSubdomain } from "@muster/names";
import type { ReadDocument } from "./read-document.ts";
import { readName, type DocumentName } from "./read-name.ts";

/** A manifest of a job, and its name. */
export type JobDocument = {
  readonly name: DocumentName;
  readonly manifest: Readonly<Record<string, unknown>>;
};

/**
 * Reads plain data as a job, or reports every problem in it. Never throws. Another project publishes the definition of a kind without a schema: then the job
 * controller checks all but the frame.
 */
export function readJobDocument(
  value: unknown,
  apiVersion: string,
  schema: CheckedSchema | undefined,
): ReadDocument<JobDocument> {
  const reader = makeValueReader();
  checkSchema(reader, schema ?? frame(apiVersion), [], value);
  for (const { path, message } of findUnknownKeys(value)) reader.report(path, message, "pair");
  const manifest = isMapping(value) ? value : {};
  const { metadata } = manifest;
  const name = isMapping(metadata)
    ? readName(reader, { ...metadata, name: metadata["name"] ?? undefined }, checkDnsSubdomain)
    : undefined;
  if (name === undefined || reader.findings.length > 0) return { ok: false, findings: reader.findings };
  return { ok: true, value: { name, manifest } };
}

/** Builds the manifest to submit: the document unchanged, with its generated name. */
export function nameManifest(
  manifest: JobDocument["manifest"],
  name: string,
  namespace?: string,
): Record<string, unknown> {
  const { metadata } = manifest;
  const { generateName: _left, ...rest } = isMapping(metadata) ? metadata : {};
  return { ...manifest, metadata: { ...rest, name, ...(namespace !== undefined && { namespace }) } };
}

/** Returns the namespace of a manifest. */
export function readNamespace({ metadata }: JobDocument["manifest"]): unknown {
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

function isMapping(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
