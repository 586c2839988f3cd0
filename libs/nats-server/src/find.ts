import { chmod, mkdir, mkdtemp, readdir, rename, rm, stat } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { FaultError, throwFault } from "@muster/faults";
import { debianPackage } from "./debian-package.ts";
import { goInstall } from "./go-install.ts";
import { underLock } from "./install-lock.ts";
import { PINNED_RELEASE, releaseDownload } from "./release-download.ts";
import { findOnPath, isExecutable, runProgram, type Environment, type Source } from "./source.ts";
import { isNewEnough, OLDEST_VERSION, parseVersion } from "./version.ts";

export type FindOptions = {
  readonly env: Environment;
  readonly onProgress?: (line: string) => void;
  readonly signal?: AbortSignal;
  /** Ways to get one that is not here yet, in the order in which they are tried. */
  readonly sources?: readonly Source[];
};

export type FoundNatsServer = {
  readonly path: string;
  readonly version: string;
  /** Where it was found or how it was fetched. */
  readonly from: string;
};

const VERSION_TIMEOUT_MS = 20_000;
/** Longer than all sources together may take. */
const LEFTOVER_MS = 3_600_000;
const SOURCES: readonly Source[] = [releaseDownload(PINNED_RELEASE), goInstall(), debianPackage()];

/**
 * Finds a nats-server binary of version 2.11 or later, or fetches one into the cache: MUSTER_NATS_SERVER, then PATH, then the cache, then the pinned download with
 * its checksum, then `go install`, then the Debian package unpacked without root. Rejects with FaultError unavailable whose message says what was tried and
 * what to install by hand, and with cancelled when the signal is aborted. Several callers at once fetch once.
 */
export async function findNatsServer(options: FindOptions): Promise<FoundNatsServer> {
  const { env, onProgress = () => undefined, signal = new AbortController().signal } = options;
  const failures: string[] = [];
  const named = env["MUSTER_NATS_SERVER"];
  if (named !== undefined && named !== "") {
    const version = await usableVersion(named, env, failures);
    // Whoever names one wants no other.
    return version === undefined ? giveUp(failures) : { path: named, version, from: "MUSTER_NATS_SERVER" };
  }
  for (const path of await findOnPath("nats-server", env)) {
    const version = await usableVersion(path, env, failures);
    if (version !== undefined) return { path, version, from: "PATH" };
    onProgress(`passing over ${failures.at(-1) ?? path}`);
  }
  const directory = join(cacheDirectory(env), "muster", "bin");
  const path = join(directory, "nats-server");
  const cached = await usableIfThere(path, env);
  if (cached !== undefined) return { path, version: cached, from: "cache" };
  try {
    await mkdir(directory, { recursive: true });
    return await underLock(join(directory, "nats-server.lock"), signal, async () => {
      const meanwhile = await usableIfThere(path, env);
      if (meanwhile !== undefined) return { path, version: meanwhile, from: "cache" };
      return fetchInto(path, options.sources ?? SOURCES, failures, { env, onProgress, signal });
    });
  } catch (error) {
    if (!signal.aborted) throw error;
    throw new FaultError({ code: "cancelled", operation: "finding nats-server" }, { cause: error });
  }
}

async function fetchInto(
  path: string,
  sources: readonly Source[],
  failures: string[],
  { env, onProgress, signal }: Required<Pick<FindOptions, "env" | "onProgress" | "signal">>,
): Promise<FoundNatsServer> {
  await removeLeftovers(dirname(path));
  for (const source of sources) {
    onProgress(`fetching nats-server: ${source.name}`);
    const directory = await mkdtemp(`${path}-`);
    const limit = AbortSignal.timeout(source.timeoutMs);
    try {
      signal.throwIfAborted();
      const fetched = await source.fetch({ directory, env, signal: AbortSignal.any([signal, limit]) });
      await chmod(fetched, 0o755);
      const version = await usableVersion(fetched, env, failures);
      if (version === undefined) continue;
      // Whoever looks sees all of it or nothing.
      await rename(fetched, path);
      return { path, version, from: source.name };
    } catch (error) {
      signal.throwIfAborted();
      const why = limit.aborted ? `took longer than ${source.timeoutMs} ms` : describe(error);
      failures.push(`${source.name}: ${why}`);
      onProgress(`failed: ${source.name}: ${why}`);
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  }
  return giveUp(failures);
}

/** What processes that were killed have left. The work of one that still runs is younger. */
async function removeLeftovers(directory: string): Promise<void> {
  for (const name of await readdir(directory)) {
    const path = join(directory, name);
    if (!name.startsWith("nats-server-")) continue;
    const { mtimeMs } = await stat(path);
    if (Date.now() - mtimeMs > LEFTOVER_MS) await rm(path, { recursive: true, force: true });
  }
}

async function usableIfThere(path: string, env: Environment): Promise<string | undefined> {
  return (await isExecutable(path)) ? usableVersion(path, env, []) : undefined;
}

/** The version if it runs and is new enough; otherwise the reason is added to the failures. */
async function usableVersion(path: string, env: Environment, failures: string[]): Promise<string | undefined> {
  try {
    const said = await runProgram(path, ["--version"], { env, signal: AbortSignal.timeout(VERSION_TIMEOUT_MS) });
    const version = parseVersion(said);
    if (version !== undefined && isNewEnough(version)) return version;
    failures.push(version === undefined ? `${path} does not say its version` : `${path} is version ${version}`);
  } catch (error) {
    failures.push(`${path} does not run: ${describe(error)}`);
  }
  return undefined;
}

function cacheDirectory(env: Environment): string {
  const configured = env["XDG_CACHE_HOME"];
  if (configured !== undefined && configured !== "") return configured;
  return join(env["HOME"] ?? homedir(), ".cache");
}

function giveUp(failures: readonly string[]): never {
  return throwFault(
    { code: "unavailable", dependency: "nats-server", retryAfterMs: 0 },
    {
      doing: [
        `no nats-server of version ${OLDEST_VERSION} or later was found or could be fetched`,
        ...failures.map((failure) => `  ${failure}`),
        "install one from https://github.com/nats-io/nats-server/releases and put it on PATH, or name it in MUSTER_NATS_SERVER",
      ].join("\n"),
    },
  );
}

/** The message with those of its causes: `fetch` says why only there. */
function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause instanceof Error && error.message === "fetch failed" ? `: ${error.cause.message}` : "";
  return error.message + cause;
}
