/** Builds all artifacts that a user installs without a clone. */
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { readGit, buildSourceUrl } from "../images.ts";
import { decideVersion } from "./decide-version.ts";
import { makeRelease, type ReleaseOptions } from "./make-release.ts";

const ROOT = join(import.meta.dirname, "../../..");
const EXAMPLE = "registry.example.com/muster";
const HELP = `Usage: npm run release -- VERSION --registry REGISTRY [OPTIONS]

Makes the artifacts of a release from a clean tree. Needs helm and npm.

  VERSION           the version of package.json, or a pre-release of it
  --registry NAME   where users get the images, such as ${EXAMPLE}
  --base BASE       folder of an OCI layout with Node, or an image of the Docker engine (default: node:24-bookworm-slim)
  --output FOLDER   default: dist/release; its files are replaced
  --sign-key FILE   key of OpenSSH that signs SHA256SUMS
  --push            push the images, with the credentials of docker login
  -h, --help

SOURCE_DATE_EPOCH is the time of all files, in seconds since 1970 (default: the time of the commit).
docs/releasing.md has all steps of a release.
`;

/** Reads the command line; undefined if it requests help. Throws an error with every wrong argument, its value and a correct one. */
export function readOptions(args: readonly string[], env: NodeJS.ProcessEnv): ReleaseOptions | undefined {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      registry: { type: "string" },
      base: { type: "string", default: "node:24-bookworm-slim" },
      output: { type: "string", default: join(ROOT, "dist/release") },
      "sign-key": { type: "string" },
      push: { type: "boolean", default: false },
      help: { type: "boolean", short: "h", default: false },
    },
  });
  if (values.help) return undefined;
  const { registry = "", base, output, push, "sign-key": signKey } = values;
  const epoch = env["SOURCE_DATE_EPOCH"] ?? readGit("log", "-1", "--format=%ct") ?? "";
  const { version: own } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { version: string };
  const [version = "", ...others] = positionals;
  const verdict = decideVersion(version, own);
  const problems = [
    ...(version !== "" && verdict.kind === "refused" ? [`VERSION: ${verdict.because}`] : []),
    ...(version === "" ? [`VERSION is missing: use ${own}, or a pre-release such as ${own}-rc.1`] : []),
    ...others.map((other) => `"${other}" is one argument too many: one VERSION is needed`),
    ...problemsOfPlaces({ registry, output, signKey }),
    ...(/^\d+$/.test(epoch) ? [] : [`SOURCE_DATE_EPOCH "${epoch}": seconds since 1970 are needed outside a clone`]),
  ];
  if (problems.length > 0 || verdict.kind === "refused") throw new Error(problems.join("\n"));
  const revision = readGit("rev-parse", "HEAD") ?? "unknown";
  const source = buildSourceUrl(readGit("remote", "get-url", "origin"));
  const dockerConfig = env["DOCKER_CONFIG"] ?? join(homedir(), ".docker");
  const place = { registry, base, output, push, dockerConfig, signKey };
  return { version, core: verdict.core, ...place, timeS: Number(epoch), revision, source };
}

function problemsOfPlaces(options: Pick<ReleaseOptions, "registry" | "output" | "signKey">): string[] {
  const { registry, output, signKey } = options;
  const problems: string[] = [];
  if (!/^[\w.-]+(?::\d+)?(?:\/[a-z0-9._-]+)+$/.test(registry))
    problems.push(`--registry "${registry}": a host and a path without a tag are needed, such as ${EXAMPLE}`);
  if (signKey !== undefined && !existsSync(signKey))
    problems.push(`--sign-key "${signKey}": the file does not exist; \`ssh-keygen -t ed25519 -f FILE\` creates a key`);
  const present = existsSync(output) ? readdirSync(output) : [];
  if (present.length > 0 && !present.includes("SHA256SUMS"))
    problems.push(`--output "${output}": the folder has other files than a release; name a new or empty one`);
  return problems;
}

/** Returns the exit code: 2 where the arguments are wrong. */
async function main(): Promise<number> {
  let options: ReleaseOptions | undefined;
  try {
    options = readOptions(process.argv.slice(2), process.env);
  } catch (error) {
    process.stderr.write(`${getMessage(error).replaceAll(/^/gm, "error: ")}\n\n${HELP}`);
    return 2;
  }
  if (options === undefined) {
    process.stdout.write(HELP);
    return 0;
  }
  try {
    const changed = execFileSync("git", ["status", "--porcelain"], { cwd: ROOT, encoding: "utf8" });
    if (changed !== "") throw new Error(`a release needs a clean tree; commit or remove these first:\n${changed}`);
    await makeRelease(options);
    return 0;
  } catch (error) {
    const cause = error instanceof Error && error.cause !== undefined ? `\ncause: ${getMessage(error.cause)}` : "";
    process.stderr.write(`error: ${getMessage(error)}${cause}\n`);
    return 1;
  }
}

function getMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

if (import.meta.main) process.exitCode = await main();
