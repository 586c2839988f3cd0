import { homedir } from "node:os";
import { join } from "node:path";
import { startTracing } from "@muster/tracing";
import { makeCli } from "./adapters/deps.ts";
import { listenForInterrupts } from "./adapters/interrupts.ts";
import { terminal } from "./adapters/terminal.ts";
import { readConfig } from "./config.ts";
import { explainError } from "./explain-error.ts";
import { buildProgram } from "./program.ts";
import { VERSION } from "./version.ts";

const LOCAL_FILES = [".muster/local.json", ".muster-compose/local.json"];

/** Runs the command line of this process. The repository holds the files of the local stack; an installed command has no repository. */
export async function run(repository: string | undefined): Promise<void> {
  const interrupts = listenForInterrupts();
  const config = readConfig(process.env, {
    localFiles: repository === undefined ? [] : LOCAL_FILES.map((name) => join(repository, name)),
    keyFile: join(homedir(), ".config/muster/key"),
  });
  const io = terminal(config);
  const tracing = await startTracing({ service: "muster", version: VERSION, env: process.env });
  try {
    const program = buildProgram((common) => makeCli({ config, io, interrupts, common }), io.outStyle().columns);
    process.exitCode = await program.parse(process.argv.slice(2));
  } catch (error) {
    const { exitCode, lines } = explainError(error);
    io.err(lines);
    process.exitCode = exitCode;
  } finally {
    await tracing[Symbol.asyncDispose]();
  }
}
