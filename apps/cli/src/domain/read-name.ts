import type { ValueReader } from "@muster/documents";
import type { Fault } from "@muster/faults";

/** The number of characters that are appended to `generateName`. */
export const GENERATED_LENGTH = 5;

/** `exact` is the name; `prefix` gets random characters when the document is submitted. */
export type DocumentName = { readonly exact: string } | { readonly prefix: string };

/** Reads the name in the metadata of a document, or else `generateName`. Reports the problems that `check` finds. */
export function readName(
  reader: ValueReader,
  metadata: Readonly<Record<string, unknown>>,
  check: (field: "name" | "generateName", text: string) => Fault | undefined,
): DocumentName | undefined {
  const field = metadata["name"] === undefined ? "generateName" : "name";
  const path = ["metadata", field];
  if (metadata[field] === undefined) {
    reader.report(["metadata"], "lacks name (or generateName, to which random letters are added)");
    return undefined;
  }
  const text = reader.text(path, metadata[field]);
  if (text === undefined) return undefined;
  // A prefix is valid if it is with these characters, because all generated characters are equally valid.
  const fault = check(field, field === "name" ? text : text + "x".repeat(GENERATED_LENGTH));
  if (fault?.code === "invalid_request") reader.report(path, fault.reason);
  return field === "name" ? { exact: text } : { prefix: text };
}
