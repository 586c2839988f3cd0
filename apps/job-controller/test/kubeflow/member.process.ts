import { deepEqual } from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import type { Play } from "./play.ts";

/**
 * Replaces a process of the framework: it compares its description with the expected one, waits until it may end, and ends as its part states. A file has one
 * line for each earlier run, whichever pod it was in.
 */
const { folder, parts } = JSON.parse(process.argv[2] ?? "") as Play;
const name = process.env["HOSTNAME"] ?? "";
const part = parts[name];
const runs = join(folder, `${name}.runs`);
const run = existsSync(runs) ? readFileSync(runs, "utf8").length : 0;
appendFileSync(runs, "I");
try {
  if (part === undefined) throw new Error(`the test does not expect ${name}`);
  compare();
} catch (error) {
  appendFileSync(join(folder, "wrong"), `${name}: ${String(error)}\n`);
}

const ends = part?.ends ?? [];
const gate = join(folder, part?.isLast === true ? "last" : "end");
while (run + 1 >= ends.length && !existsSync(gate)) await setTimeout(20);
const code = ends[Math.min(run, ends.length - 1)];
if (code === undefined) await setTimeout(600_000);
process.exitCode = code ?? 1;

function compare(): void {
  if (part === undefined) return;
  const { env, files, output } = part;
  deepEqual(Object.fromEntries(Object.keys(env).map((key) => [key, process.env[key] ?? null])), env);
  const home = process.env["HOME"] ?? "";
  for (const [file, content] of Object.entries(files)) deepEqual(readFileSync(join(home, file), "utf8"), content);
  for (const { command, text } of output) {
    const [program = "", ...args] = command;
    deepEqual(execFileSync(program, args, { cwd: home, encoding: "utf8" }), text);
  }
}
