/**
 * Prepares a fresh clone before `npm start` and `npm test`: installs the dependencies and generates the contracts, where they are missing or outdated. Plain
 * JavaScript for the Node on the PATH; everything afterwards runs on the Node of the dependencies.
 */
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
const modified = (file) => (existsSync(join(root, file)) ? statSync(join(root, file)).mtimeMs : 0);

if (modified("node_modules/.package-lock.json") < modified("package-lock.json")) {
  run(
    "npm",
    ["ci", "--no-audit", "--no-fund", "--loglevel=error"],
    "installing the dependencies (once, a minute or two)",
  );
}
if (generatedAt() < contractsAt()) {
  const node = join(root, "node_modules/.bin/node");
  run(node, [join(root, "libs/proto/generate.ts")], "generating the contracts");
}

function generatedAt() {
  return Math.min(modified("libs/proto/generated/messages.js"), modified("libs/proto/generated/services.ts"));
}

function contractsAt() {
  const sources = readdirSync(join(root, "proto"), { recursive: true }).filter((name) =>
    String(name).endsWith(".proto"),
  );
  return Math.max(modified("libs/proto/generate.ts"), ...sources.map((name) => modified(join("proto", String(name)))));
}

function run(command, args, title) {
  process.stderr.write(`${title}\n`);
  const { status, error } = spawnSync(command, args, { cwd: root, stdio: ["ignore", "inherit", "inherit"] });
  if (status === 0) return;
  process.stderr.write(`error: ${title} failed${error === undefined ? "" : `: ${error.message}`}\n`);
  process.exit(1);
}
