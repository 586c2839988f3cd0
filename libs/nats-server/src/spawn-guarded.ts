import { spawn, type ChildProcess } from "node:child_process";
import { Writable } from "node:stream";

/**
 * Becomes the server, after it has left a child behind that waits for the parent: a line says that the server has ended, the end of the pipe that the parent
 * is gone without having stopped it, whatever became of it.
 */
const GUARDED = `( read -r _ <&3 || kill -9 $$ ) </dev/null >/dev/null 2>&1 & exec "$0" "$@" 3<&-`;

/**
 * Starts a server that does not outlive this process, however that ends, and hears no signal from the terminal. `output`: descriptor of the file that it
 * writes to; `env`: on top of the environment of this process.
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
