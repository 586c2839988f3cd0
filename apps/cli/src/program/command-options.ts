import { parseDuration } from "@muster/faults";
import { InvalidArgumentError, Option } from "commander";
import { FORMATS, type Format } from "../commands/output.ts";
import type { ExitCode } from "../domain/decide-exit.ts";

/** Makes an action of commander out of one that answers with an exit code. */
export type Answer = <Args extends unknown[]>(
  action: (...args: Args) => Promise<ExitCode>,
) => (...args: Args) => Promise<void>;

export type OutputOption = { readonly output: Format };

export function outputOption(): Option {
  return new Option("-o, --output <format>", "form of the output").choices(FORMATS).default("table");
}

/** Commands to copy, below the help of a command. */
export function examples(...commands: readonly string[]): string {
  return ["", "Examples:", ...commands.map((command) => `  ${command}`)].join("\n");
}

/** Milliseconds, above zero. */
export function durationArgument(text: string): number {
  const ms = parseDuration(text);
  if (ms === undefined || ms === 0) throw new InvalidArgumentError("A duration with its unit is needed, such as 10m.");
  return ms;
}
