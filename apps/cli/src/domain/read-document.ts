import type { Finding } from "@muster/documents";

/** The value of plain data, or every problem in it. */
export type ReadDocument<Value> =
  { readonly ok: true; readonly value: Value } | { readonly ok: false; readonly findings: readonly Finding[] };

/** Returns the fields of a mapping; an empty object for any other value. */
export function toFields(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}
