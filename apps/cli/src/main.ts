import { homedir } from "node:os";
import { join } from "node:path";
import { startTelemetry } from "@muster/tracing";
import { makeCli } from "./adapters/deps.ts";
import { listenForInterrupts } from "./adapters/interrupts.ts";
import { terminal } from "./adapters/terminal.ts";
import { readConfig } from "./config.ts";
import { explainError } from "./explain-error.ts";
import { buildProgram } from "./program.ts";
import { VERSION } from "./version.ts";

const interrupts = listenForInterrupts();
const config = readConfig(process.env, {
  localFiles: [".muster", ".muster-compose"].map((name) => join(import.meta.dirname, "../../..", name, "local.json")),
  keyFile: join(homedir(), ".config/muster/key"),
});
const io = terminal(config);
const telemetry = await startTelemetry({ service: "muster", version: VERSION, env: process.env });
try {
  const program = buildProgram((common) => makeCli({ config, io, interrupts, common }), io.outStyle().columns);
  process.exitCode = await program.parse(process.argv.slice(2));
} catch (error) {
  const { exitCode, lines } = explainError(error);
  io.err(lines);
  process.exitCode = exitCode;
} finally {
  await telemetry[Symbol.asyncDispose]();
}
