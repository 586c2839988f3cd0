import { CommandError } from "../command-error.ts";
import { FORMATS } from "../commands/output.ts";
import { EXIT } from "../domain/decide-exit.ts";
import { argument, defineChoice, option, withDefault, type OptionRow } from "./command-row.ts";
import { parseDurationArgument, makeNumberParser } from "./parse-values.ts";

export const OUTPUT = withDefault(defineChoice("-o, --output <format>", "output format", FORMATS), "table");

/** The file of the user's key; it precedes the environment. */
export const KEY_FILE = option("--key-file <file>", "the private key, instead of MUSTER_KEY and MUSTER_KEY_FILE");

/** The key of the engine that receives orders. */
export const ENGINE_KEY = option(
  "--engine-key <id>",
  "seal secrets only to this key; exit with 4 if the engine has another key",
);

export const FILES = argument("[file...]", "YAML files; - is standard input");
export const FILENAMES = withDefault(
  option("-f, --filename <file>", "a YAML file, repeatable; - is standard input", (file, before: string[]) => [
    ...before,
    file,
  ]),
  [],
  "none",
);

/** Returns the files of both forms. Throws CommandError if none is given. */
export function listFiles(command: string, files: readonly string[], filenames: readonly string[]): readonly string[] {
  const all = [...files, ...filenames];
  if (all.length > 0) return all;
  throw new CommandError(EXIT.usage, "no file is given", { hint: `${command} -f FILE; - is standard input` });
}

/** Declares `--timeout`, which must be positive. */
export function defineTimeoutOption(description: string): OptionRow<number | undefined> {
  return option("--timeout <duration>", description, parseDurationArgument);
}

/** Limits the items of a list. */
export const LIMIT = withDefault(
  option("--limit <n>", "the newest ones, at most this many", makeNumberParser(1, 500)),
  100,
);
