import type { CheckedSchema } from "@muster/documents";

export type Schema = Readonly<Record<string, unknown>>;

/** Builds the schema of a mapping that allows only these fields. */
export function buildClosedSchema(
  required: readonly string[],
  properties: Readonly<Record<string, Schema>>,
): CheckedSchema {
  return { type: "object", additionalProperties: false, ...(required.length > 0 && { required }), properties };
}
