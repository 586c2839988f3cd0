import { chmod, mkdir, mkdtemp, readdir, rename, rm, stat } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { FaultError, findFault, throwFault } from "@muster/faults";
import { makeDebianPackage } from "./debian-package.ts";
import { fetchFirst, formatSeconds, type Attempt, type FetchLimits } from "./fetch-first.ts";
import { makeGoInstall, GO_MODULE } from "./go-install.ts";
import { runUnderLock } from "./install-lock.ts";
import { PINNED_RELEASE, makeReleaseDownload } from "./release-download.ts";
import { findOnPath, isExecutable, runProgram, type Environment, type ProgramSource } from "./source.ts";
import { isNewEnough, OLDEST_VERSION, parseVersion } from "./version.ts";

export type FindOptions = {
  readonly env: Environment;
  readonly onProgress?: (line: string) => void;
  readonly signal?: AbortSignal;
  /** Sources for a missing server, fastest first. */
  readonly sources?: readonly ProgramSource[];
  readonly patience?: FetchLimits;
};

type FoundNatsServer = {
  readonly path: string;
  readonly version: string;
  /** The path of the server, or the source that fetched it. */
  readonly from: string;
};

const VERSION_TIMEOUT_MS = 20_000;
const PATIENCE: FetchLimits = { limitMs: 180_000, headStartMs: 15_000, progressIntervalMs: 10_000 };
/** Minimum age of leftovers: longer than all sources together may take. */
const LEFTOVER_MS = 3_600_000;
const DOWNLOADS = "https://github.com/nats-io/nats-server/releases";
const SOURCES: readonly ProgramSource[] = [makeReleaseDownload(PINNED_RELEASE), makeGoInstall(), makeDebianPackage()];

/**
 * Finds a nats-server binary of version 2.11 or later, or fetches one into the cache. Searches MUSTER_NATS_SERVER, PATH and the cache, then tries the pinned
 * download with its checksum, `go install`, and the Debian package unpacked without root. A slow source gets the next one in parallel, within one limit for
 * all. Rejects with FaultError unavailable, whose message lists the attempts and the remedy, and with cancelled when the signal is aborted. Concurrent callers
 * fetch once.
 */
export async function findNatsServer(options: FindOptions): Promise<FoundNatsServer> {
  const { env, onProgress = () => undefined, signal = new AbortController().signal } = options;
  const { sources = SOURCES, patience = PATIENCE } = options;
  const failures: string[] = [];
  const named = env["MUSTER_NATS_SERVER"];
  if (named !== undefined && named !== "") {
    const version = await usableVersion(named, env, failures);
    // A named server is used, or none.
    return version === undefined ? giveUp(failures) : { path: named, version, from: "MUSTER_NATS_SERVER" };
  }
  for (const path of await findOnPath("nats-server", env)) {
    const version = await usableVersion(path, env, failures);
    if (version !== undefined) return { path, version, from: "PATH" };
    onProgress(`passing over ${failures.at(-1) ?? path}`);
  }
  const directory = join(cacheDirectory(env), "muster", "bin");
  const path = join(directory, "nats-server");
  const cached = await findUsable(path, env);
  if (cached !== undefined) return { path, version: cached, from: "cache" };
  onProgress(`no nats-server of version ${OLDEST_VERSION} or later is on PATH or in the cache;`);
  onProgress(`one is fetched into ${directory}, which takes ${formatSeconds(patience.limitMs)} at most`);
  const limit = AbortSignal.timeout(patience.limitMs);
  const lock = {
    signal: AbortSignal.any([signal, limit]),
    onWait: () => onProgress("waiting for another process that fetches it"),
  };
  try {
    await mkdir(directory, { recursive: true });
    return await runUnderLock(join(directory, "nats-server.lock"), lock, async () => {
      const meanwhile = await findUsable(path, env);
      if (meanwhile !== undefined) return { path, version: meanwhile, from: "cache" };
      await removeLeftovers(directory);
      const attempt = (source: ProgramSource, stop: AbortSignal) => fetchInto(path, source, env, stop);
      const fetched = await fetchFirst(sources, attempt, { ...patience, onProgress, signal, limit });
      return "result" in fetched ? fetched.result : giveUp([...failures, ...fetched.failures]);
    });
  } catch (error) {
    if (signal.aborted) throw new FaultError({ code: "cancelled", operation: "finding nats-server" }, { cause: error });
    if (limit.aborted && findFault(error) === undefined)
      return giveUp([
        ...failures,
        `another process was fetching it for longer than ${formatSeconds(patience.limitMs)}`,
      ]);
    throw error;
  }
}

async function fetchInto(
  path: string,
  source: ProgramSource,
  env: Environment,
  signal: AbortSignal,
): Promise<Attempt<FoundNatsServer>> {
  const directory = await mkdtemp(`${path}-`);
  try {
    const fetched = await source.fetch({ directory, env, signal });
    await chmod(fetched, 0o755);
    const failures: string[] = [];
    const version = await usableVersion(fetched, env, failures);
    if (version === undefined) return { why: failures.join("; ") };
    signal.throwIfAborted();
    // The rename is atomic: other processes see the complete file or none.
    await rename(fetched, path);
    return { result: { path, version, from: source.name } };
  } catch (error) {
    return { why: describe(error) };
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** Removes the folders that killed processes left. The folder of a running process is younger. */
async function removeLeftovers(directory: string): Promise<void> {
  for (const name of await readdir(directory)) {
    const path = join(directory, name);
    if (!name.startsWith("nats-server-")) continue;
    const { mtimeMs } = await stat(path);
    if (Date.now() - mtimeMs > LEFTOVER_MS) await rm(path, { recursive: true, force: true });
  }
}

async function findUsable(path: string, env: Environment): Promise<string | undefined> {
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
        ...(failures.length === 0 ? [] : ["tried:", ...failures.map((failure) => `  ${failure}`)]),
        "what to do:",
        `  download ${PINNED_RELEASE.version} and put it on PATH: ${DOWNLOADS}`,
        `  or build it: go install ${GO_MODULE}`,
        "  or set MUSTER_NATS_SERVER to the file of one that is there already",
        "until then",
      ].join("\n"),
    },
  );
}

/** Joins the message with those of its causes, because `fetch` states the reason only there. */
function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause instanceof Error && error.message === "fetch failed" ? `: ${error.cause.message}` : "";
  return error.message + cause;
}
