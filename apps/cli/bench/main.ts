/**
 * Measures from the start of the process to the last line of a command, beside a Node that runs nothing. The bundle is built and its compiled code is stored
 * first. Run: node apps/cli/bench/main.ts
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { buildProcessEnv, selectSize } from "@muster/testkit";
import { startSessionWorld } from "../test/session-world.ts";

const BIN = join(import.meta.dirname, "../bin/muster.mjs");
const RUNS = selectSize(30, 3);

await using world = await startSessionWorld();
const env = { ...buildProcessEnv(), MUSTER_NATS_URL: world.url, MUSTER_NATS_TOKEN: world.token };
const measured = {
  "node -e 0": ["-e", "0"],
  "muster version --client": [BIN, "version", "--client"],
  "muster get sessions": [BIN, "get", "sessions"],
};
for (const args of Object.values(measured)) await timeOf(args);
const times = Object.fromEntries(Object.keys(measured).map((name) => [name, [] as number[]]));
// The commands take turns, so that other load of the machine affects all of them equally.
for (let run = 0; run < RUNS; run += 1)
  for (const [name, args] of Object.entries(measured)) times[name]?.push(await timeOf(args));
const baselineMs = median(times["node -e 0"]);
for (const [name, all] of Object.entries(times)) {
  const ms = median(all);
  console.log(`${name}: ${ms.toFixed(0)} ms, ${(ms / baselineMs).toFixed(1)} times \`node -e 0\``);
}

async function timeOf(args: readonly string[]): Promise<number> {
  const startedMs = performance.now();
  const child = spawn(process.execPath, args, { env, stdio: ["ignore", "pipe", "inherit"] });
  child.stdout.resume();
  const [code] = (await once(child, "close")) as [number | null];
  if (code !== 0) throw new Error(`${args.join(" ")} ended with ${code}`);
  return performance.now() - startedMs;
}

function median(all: readonly number[] = []): number {
  return all.toSorted((a, b) => a - b)[Math.floor(all.length / 2)] ?? 0;
}
