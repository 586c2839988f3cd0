import { stringify } from "yaml";
import type { TerminalIo } from "../cli.ts";
import type { TableStyle } from "../domain/build-table.ts";

export const FORMATS = ["table", "json", "yaml"] as const;
export type Format = (typeof FORMATS)[number];

/** Prints one item in the requested format. */
export function printForms(
  io: TerminalIo,
  format: Format,
  forms: { readonly table: (style: TableStyle) => readonly string[]; readonly data: () => unknown },
): void {
  if (format === "table") io.out(forms.table(io.outStyle()));
  else if (format === "json") io.out([toJson(forms.data(), 2)]);
  else io.out([toYaml(forms.data())]);
}

/** Prints a list, or `none` if it is empty. */
export function printList<Item>(
  io: TerminalIo,
  format: Format,
  items: readonly Item[],
  forms: {
    readonly none: string;
    readonly table: (style: TableStyle) => readonly string[];
    readonly record: (item: Item) => unknown;
  },
): void {
  const table = (style: TableStyle) => (items.length === 0 ? [forms.none] : forms.table(style));
  printForms(io, format, { table, data: () => items.map((item) => forms.record(item)) });
}

/** Prints a change: one line for people, or the record for programs. */
export function printLine(io: TerminalIo, format: Format, line: string, record: () => unknown): void {
  printForms(io, format, { table: () => [line], data: record });
}

/** Prints records for programs. For people each record was already printed as a line. */
export function printRecords(io: TerminalIo, format: Format, records: readonly unknown[]): void {
  if (format !== "table") printForms(io, format, { table: () => [], data: () => records });
}

/** Formats JSON in one line, or with this indent. Control characters and changes of text direction in its texts are escaped. */
export function toJson(value: unknown, indent?: number): string {
  return JSON.stringify(value, undefined, indent).replaceAll(/[\u007f-\u009f]|\p{Bidi_Control}/gu, escaped);
}

/** Formats YAML without line wrapping and without aliases. Texts with control characters are quoted. */
export function toYaml(value: unknown): string {
  const text = stringify(value, { lineWidth: 0, blockQuote: "literal", aliasDuplicateObjects: false });
  return text.trimEnd().replaceAll(/[\u007f-\u009f]/g, escaped);
}

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
