import { spawn, type ChildProcess } from "node:child_process";
import { Writable } from "node:stream";

/**
 * Starts a child that waits for the parent, then becomes the server. A line in the pipe states that the server has ended; the end of the pipe means that the
 * parent died without stopping it.
 */
const GUARDED = `( read -r _ <&3 || kill -9 $$ ) </dev/null >/dev/null 2>&1 & exec "$0" "$@" 3<&-`;

/**
 * Starts a server that ends with this process, however that ends, and receives no signal from the terminal. `output`: descriptor of its output file; `env`:
 * added to the environment of this process.
 */
export function spawnGuarded(
  binary: string,
  args: readonly string[],
  output: number,
  env: Readonly<Record<string, string>> = {},
): ChildProcess {
  const child = spawn("/bin/sh", ["-c", GUARDED, binary, ...args], {
    env: { ...process.env, ...env },
    stdio: ["ignore", output, output, "pipe"],
    detached: true,
  });
  child.once("exit", () => endGuard(child));
  return child;
}

function endGuard(child: ChildProcess): void {
  const pipe = child.stdio[3];
  if (!(pipe instanceof Writable)) return;
  // The guard may have gone with the server.
  pipe.on("error", () => undefined);
  pipe.end("ended\n");
}
