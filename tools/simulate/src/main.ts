import { randomInt } from "node:crypto";
import { describeFault, faultOf } from "@muster/faults";
import { HELP, readArguments, type Arguments } from "./arguments.ts";
import { runSeeds } from "./run-seeds.ts";

const stop = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => stop.abort());
process.exitCode = await main();

async function main(): Promise<number> {
  let options: Arguments;
  try {
    options = readArguments(process.argv.slice(2), randomInt(2 ** 31));
  } catch (error) {
    const fault = faultOf(error);
    if (fault === undefined) throw error;
    process.stderr.write(`error: ${describeFault(fault)}\n\n${HELP}`);
    return 2;
  }
  if (options.help) {
    process.stdout.write(HELP);
    return 0;
  }
  return runSeeds(options, { signal: stop.signal, output: process.stdout, terminal: process.stderr });
}
