import { homedir } from "node:os";
import { join } from "node:path";
import { startTracing } from "@muster/tracing";
import { makeCli } from "./adapters/deps.ts";
import { listenForInterrupts } from "./adapters/interrupts.ts";
import { makeTerminal } from "./adapters/terminal.ts";
import type { Interrupts, TerminalIo } from "./cli.ts";
import { readConfig, type Config } from "./config.ts";
import type { ExitCode } from "./domain/decide-exit.ts";
import { explainError } from "./explain-error.ts";
import { RESOURCES, type Resources } from "./kinds/resources.ts";
import { buildProgram } from "./program.ts";
import { VERSION } from "./version.ts";

const LOCAL_FILES = [".muster/local.json", ".muster-compose/local.json"];

/** Runs the command line of this process. The repository contains the files of the local stack; an installed command has no repository. */
export async function run(repository: string | undefined): Promise<void> {
  const interrupts = listenForInterrupts();
  const config = readConfig(process.env, {
    localFiles: repository === undefined ? [] : LOCAL_FILES.map((name) => join(repository, name)),
    keyFile: join(homedir(), ".config/muster/key"),
    contextFile: join(homedir(), ".config/muster/config.yaml"),
  });
  const io = makeTerminal(config);
  const tracing = await startTracing({ service: "muster", version: VERSION, env: process.env });
  try {
    process.exitCode = await runCommand({ args: process.argv.slice(2), config, io, interrupts });
  } finally {
    await tracing[Symbol.asyncDispose]();
  }
}

export type Invocation = {
  readonly args: readonly string[];
  readonly config: Config;
  readonly io: TerminalIo;
  readonly interrupts: Interrupts;
  readonly resources?: Resources;
};

/** Runs one command line, prints its error, and returns its exit code. */
export async function runCommand({ args, io, resources = RESOURCES, ...rest }: Invocation): Promise<ExitCode> {
  try {
    return await buildProgram((common) => makeCli({ io, common, resources, ...rest }), io.outStyle().columns).parse(
      args,
    );
  } catch (error) {
    const { exitCode, lines } = explainError(error, resources);
    io.err(lines);
    return exitCode;
  }
}
