import { spawn } from "node:child_process";
import { once } from "node:events";
import { join, resolve } from "node:path";
import { ROOT } from "../src/root.ts";
import type { World } from "./stack-world.ts";

/** Runs `muster run` on a file, from the root of the repository, against the stack; returns the output and the exit code. */
export function startMuster(world: World, file: string): Promise<Ended> {
  return runMuster(world, ["run", resolve(ROOT, file)]);
}

export type Ended = { readonly code: number; readonly output: string };

/**
 * Runs any command, of another version where `program` names one. With `interruptAt`, sends one SIGINT when the output first matches: a second one would
 * end the process before it can set its exit code.
 */
export async function runMuster(
  world: { readonly stack: Pick<World["stack"], "clientEnv">; readonly program?: string },
  args: readonly string[],
  interruptAt?: RegExp,
): Promise<Ended> {
  const cli = spawn(process.execPath, [world.program ?? join(ROOT, "apps/cli/src/main.ts"), ...args], {
    cwd: ROOT,
    env: world.stack.clientEnv,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  let isInterrupted = false;
  for (const stream of [cli.stdout, cli.stderr]) {
    stream.setEncoding("utf8").on("data", (chunk: string) => {
      output += chunk;
      if (isInterrupted || interruptAt?.test(output) !== true) return;
      isInterrupted = true;
      cli.kill("SIGINT");
    });
  }
  const [code] = (await once(cli, "close")) as [number];
  return { code, output };
}
