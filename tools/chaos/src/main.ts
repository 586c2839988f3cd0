import { HELP, readArguments } from "./arguments.ts";
import { runProgram } from "./command-line.ts";
import { runSeeds } from "./run-seeds.ts";

await runProgram({
  help: HELP,
  read: readArguments,
  run: (options, signal) =>
    runSeeds(options, { env: process.env, signal, output: process.stdout, terminal: process.stderr }),
});
