import { randomInt } from "node:crypto";
import { parseArgs, type ParseArgsConfig } from "node:util";
import { describeFault, findFault, throwFault } from "@muster/faults";

/** Seeds are below this limit. */
export const MAX_SEED = 2 ** 31;
const STOPPED_BY = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** A program whose actions are drawn from a seed. */
export type SeededProgram<Arguments> = {
  readonly help: string;
  /** Throws one invalid_request that names every problem. */
  read(args: readonly string[], randomSeed: number): Arguments;
  /** Returns the exit code. */
  run(options: Arguments, signal: AbortSignal): Promise<number>;
};

/** Runs the program with the arguments of this process, and sets the exit code: 2 where the arguments are wrong. */
export async function runProgram<Arguments extends { readonly help: boolean }>(
  program: SeededProgram<Arguments>,
): Promise<void> {
  const stop = new AbortController();
  for (const signal of STOPPED_BY) process.on(signal, () => stop.abort());
  process.exitCode = await answer(program, stop.signal);
}

async function answer<Arguments extends { readonly help: boolean }>(
  { help, read, run }: SeededProgram<Arguments>,
  signal: AbortSignal,
): Promise<number> {
  let options: Arguments;
  try {
    options = read(process.argv.slice(2), randomInt(MAX_SEED));
  } catch (error) {
    const fault = findFault(error);
    if (fault === undefined) throw error;
    process.stderr.write(`error: ${describeFault(fault)}\n\n${help}`);
    return 2;
  }
  if (!options.help) return run(options, signal);
  process.stdout.write(help);
  return 0;
}

/** Parses as parseArgs of Node does, but throws invalid_request. */
export function parseWords<Config extends ParseArgsConfig>(config: Config): ReturnType<typeof parseArgs<Config>> {
  try {
    return parseArgs(config);
  } catch (error) {
    return refuseArguments(error instanceof Error ? error.message : String(error));
  }
}

/** Reads whole numbers. For a wrong value it adds a problem and returns the fallback. */
export function parseIntegers<Name extends string>(
  values: Readonly<Partial<Record<Name, string | undefined>>>,
  problems: string[],
): (name: Name, fallback: number, min: number, max: number) => number {
  return (name, fallback, min, max) => {
    const text = values[name];
    if (text === undefined) return fallback;
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= min && value <= max) return value;
    problems.push(`--${name} is "${text}"; a number from ${min} to ${max} is needed`);
    return fallback;
  };
}

/** Adds a problem where the value is neither text nor json. */
export function readOutput(output: string, problems: string[]): "text" | "json" {
  if (output === "text" || output === "json") return output;
  problems.push(`-o is "${output}"; text or json is needed`);
  return "text";
}

/** Throws invalid_request. */
export function refuseArguments(reason: string): never {
  return throwFault({ code: "invalid_request", field: "arguments", reason });
}
