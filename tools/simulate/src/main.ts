import { randomInt } from "node:crypto";
import { describeFault, faultOf } from "@muster/faults";
import { HELP, readArguments, type Arguments } from "./arguments.ts";
import { planLeases, readDecisions } from "./replay-leases.ts";
import { planNext } from "./replay.ts";
import { runSeeds } from "./run-seeds.ts";
import { readSnapshot } from "./system-snapshot.ts";

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
  if (options.replay !== undefined) return replay(options.replay, options.output);
  return runSeeds(options, { signal: stop.signal, output: process.stdout, terminal: process.stderr });
}

function replay(file: string, output: Arguments["output"]): number {
  const decisions = readDecisions(file);
  const steps = decisions === undefined ? planNext(readSnapshot(file)) : planLeases(decisions);
  if (output === "json") process.stdout.write(`${JSON.stringify(steps)}\n`);
  else for (const { who, step, because } of steps) process.stdout.write(`${who}: ${step} (${because})\n`);
  if (output === "text" && steps.length === 0) process.stdout.write("nothing is to be done\n");
  return 0;
}
