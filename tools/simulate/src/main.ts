import { runProgram } from "@muster/chaos/command-line";
import { HELP, readArguments, type Arguments } from "./arguments.ts";
import { planLeases, readDecisions } from "./replay-leases.ts";
import { planNext } from "./replay.ts";
import { runSeeds } from "./run-seeds.ts";
import { readSnapshot } from "./system-snapshot.ts";

await runProgram({
  help: HELP,
  read: readArguments,
  run: async (options, signal) =>
    options.replay === undefined
      ? runSeeds(options, { signal, output: process.stdout, terminal: process.stderr })
      : replay(options.replay, options.output),
});

function replay(file: string, output: Arguments["output"]): number {
  const decisions = readDecisions(file);
  const steps = decisions === undefined ? planNext(readSnapshot(file)) : planLeases(decisions);
  if (output === "json") process.stdout.write(`${JSON.stringify(steps)}\n`);
  else for (const { who, step, because } of steps) process.stdout.write(`${who}: ${step} (${because})\n`);
  if (output === "text" && steps.length === 0) process.stdout.write("no steps to take\n");
  return 0;
}
