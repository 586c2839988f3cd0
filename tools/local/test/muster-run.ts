import { spawn } from "node:child_process";
import { once } from "node:events";
import { join, resolve } from "node:path";
import { ROOT } from "../src/stack.ts";
import type { World } from "./stack-world.ts";

/** Runs `muster run` on a file, from the root of the repository, against the stack; returns what it printed and how it ended. */
export async function musterRun(world: World, file: string): Promise<{ code: number; output: string }> {
  const cli = spawn(process.execPath, [join(ROOT, "apps/cli/src/main.ts"), "run", resolve(ROOT, file)], {
    env: world.stack.clientEnv,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [cli.stdout, cli.stderr]) {
    stream.setEncoding("utf8").on("data", (chunk: string) => {
      output += chunk;
    });
  }
  const [code] = (await once(cli, "close")) as [number];
  return { code, output };
}
