/**
 * Makes everything that a user installs without a clone: `npm run release -- VERSION --registry REGISTRY [--base BASE] [--push] [--sign-key FILE]`. Writes
 * dist/release. Needs helm, and for a base that is no folder a Docker engine. `SOURCE_DATE_EPOCH` is the time of all files; by default that of the commit.
 */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { readGit, sourceOf } from "../images.ts";
import { decideVersion } from "./decide-version.ts";
import { makeRelease, type ReleaseOptions } from "./make-release.ts";

const ROOT = join(import.meta.dirname, "../../..");
const USAGE = "npm run release -- VERSION --registry registry.example.com/muster";

/** Reads the command line. Throws with the argument that is wrong and a correct one. */
export function readOptions(
  args: readonly string[],
  env: NodeJS.ProcessEnv,
): ReleaseOptions & { readonly push: boolean } {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      registry: { type: "string" },
      base: { type: "string", default: "node:24-bookworm-slim" },
      output: { type: "string", default: join(ROOT, "dist/release") },
      "sign-key": { type: "string" },
      push: { type: "boolean", default: false },
    },
  });
  const [version, ...others] = positionals;
  if (version === undefined || others.length > 0) throw new Error(`one VERSION is needed: ${USAGE}`);
  const { version: own } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { version: string };
  const verdict = decideVersion(version, own);
  if (verdict.kind === "refused") throw new Error(verdict.because);
  const { registry = "" } = values;
  if (!/^[\w.-]+(?::\d+)?(?:\/[a-z0-9._-]+)+$/.test(registry))
    throw new Error(`--registry "${registry}": a host and a path without a tag are needed: ${USAGE}`);
  const epoch = env["SOURCE_DATE_EPOCH"] ?? readGit("log", "-1", "--format=%ct") ?? "";
  if (!/^\d+$/.test(epoch))
    throw new Error(`SOURCE_DATE_EPOCH "${epoch}": seconds since 1970 are needed outside a clone`);
  const { base, output, push, "sign-key": signKey } = values;
  const revision = readGit("rev-parse", "HEAD") ?? "unknown";
  const source = sourceOf(readGit("remote", "get-url", "origin"));
  const dockerConfig = env["DOCKER_CONFIG"] ?? join(homedir(), ".docker");
  const place = { registry, base, output, push, dockerConfig, signKey };
  return { version, core: verdict.core, ...place, timeS: Number(epoch), revision, source };
}

if (import.meta.main) {
  const options = readOptions(process.argv.slice(2), process.env);
  const changed = execFileSync("git", ["status", "--porcelain"], { cwd: ROOT, encoding: "utf8" });
  if (changed !== "") throw new Error(`a release needs a clean tree; commit or remove these first:\n${changed}`);
  await makeRelease(options);
}
