import { open, readFile, rm } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";

const RETRY_MS = 100;

/**
 * Runs the work while no other process on this machine runs it under the same lock file. Takes over the lock of a dead process. Two processes may take it over
 * at the same moment and both run the work, which must tolerate that. Calls `onWait` once when another process has the lock.
 */
export async function runUnderLock<Result>(
  file: string,
  { signal, onWait }: { readonly signal: AbortSignal; readonly onWait: () => void },
  work: () => Promise<Result>,
): Promise<Result> {
  let hasReported = false;
  while (!(await take(file))) {
    if (!hasReported) onWait();
    hasReported = true;
    if (await isAbandoned(file)) await rm(file, { force: true });
    else await sleep(RETRY_MS, undefined, { signal });
  }
  try {
    return await work();
  } finally {
    await rm(file, { force: true });
  }
}

async function take(file: string): Promise<boolean> {
  try {
    await using handle = await open(file, "wx");
    await handle.writeFile(String(process.pid));
    return true;
  } catch (error) {
    if (findErrorCode(error) === "EEXIST") return false;
    throw error;
  }
}

async function isAbandoned(file: string): Promise<boolean> {
  const pid = Number(await readFile(file, "utf8").catch(() => ""));
  // The file is empty for a moment after its creation, and missing after a release.
  if (pid === 0) return false;
  try {
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return findErrorCode(error) === "ESRCH";
  }
}

function findErrorCode(error: unknown): unknown {
  return error instanceof Error && "code" in error ? error.code : undefined;
}
