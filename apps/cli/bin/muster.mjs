#!/usr/bin/env node
// Plain JavaScript, because an older Node cannot even parse what follows: it hands over to the Node that the repository brings.
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { constants } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const MAJOR_MIN = 24;
const here = dirname(fileURLToPath(import.meta.url));
const main = join(here, "../src/main.ts");
const ownNode = join(here, "../../../node_modules/.bin/node");

if (Number(process.versions.node.split(".")[0]) >= MAJOR_MIN) await import(main);
else if (existsSync(ownNode)) handOver();
else {
  process.stderr.write(
    `error: muster needs Node ${MAJOR_MIN} or later, this is ${process.versions.node}\nhint: run \`npm install\` in the repository, which brings it\n`,
  );
  process.exitCode = 2;
}

function handOver() {
  const child = spawn(ownNode, [main, ...process.argv.slice(2)], { stdio: ["inherit", "inherit", "inherit", "ipc"] });
  // Whoever signals the whole group, as a terminal does for Ctrl-C, has signalled the child as well: told by a message, it knows the one for the other.
  for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => child.connected && child.send(signal, () => {}));
  process.on("SIGHUP", () => child.kill("SIGHUP"));
  child.on("error", (error) => {
    process.stderr.write(`error: starting ${ownNode}: ${error.message}\n`);
    process.exitCode = 2;
  });
  child.on("exit", (code, signal) => {
    process.exitCode = code ?? 128 + (constants.signals[signal] ?? 0);
  });
}
