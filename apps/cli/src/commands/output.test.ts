import { expect, it } from "vitest";
import { parse } from "yaml";
import type { TerminalIo } from "../cli.ts";
import { printForms, toJson, type Format } from "./output.ts";

const NAME = "a\u009b31m\u007f\u001b[2Jb";
// eslint-disable-next-line no-control-regex -- control characters are what this is about
const STEERING = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/;

function printed(format: Format): string {
  const lines: string[] = [];
  const io = { out: (added: readonly string[]) => void lines.push(...added) } as TerminalIo;
  printForms(io, format, { table: () => [], data: () => ({ name: NAME }) });
  return lines.join("\n");
}

it.each<[Format, (text: string) => unknown]>([
  ["json", (text) => JSON.parse(text) as unknown],
  ["yaml", (text) => parse(text) as unknown],
])("keeps every character in %s, and lets none of them control the terminal", (format, read) => {
  expect([read(printed(format)), printed(format)]).toEqual([{ name: NAME }, expect.not.stringMatching(STEERING)]);
});

it("lets no text in JSON change the direction of what follows", () => {
  expect(toJson({ name: "a\u202eb" })).toBe('{"name":"a\\u202eb"}');
});
