/**
 * Builds the images of the Dockerfile: `npm run images [-- [--tag TAG] [--measure] [IMAGE...]]`. With --measure it prints a table of their sizes, and of the time
 * from `docker run` to ready.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { IMAGES } from "./image-contents.ts";
import { measureImages } from "./measure-images.ts";

const ROOT = join(import.meta.dirname, "../..");

/** Throws where the engine or the build fails; what they say goes to standard error. */
export function buildImages(names: readonly string[], tag: string): void {
  const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { version: string };
  const told = {
    VERSION: version,
    REVISION: askGit("rev-parse", "HEAD") ?? "unknown",
    SOURCE: sourceOf(askGit("remote", "get-url", "origin")),
  };
  const labels = Object.entries(told).flatMap(([name, value]) => ["--build-arg", `${name}=${value}`]);
  for (const name of names) {
    const args = ["build", "--quiet", "--build-arg", `APP=${name}`, ...labels, "--tag", `muster/${name}:${tag}`, "."];
    const { status } = spawnSync("docker", args, { cwd: ROOT, stdio: ["ignore", 2, 2] });
    if (status !== 0) throw new Error(`docker ${args.join(" ")} failed`);
    process.stderr.write(`muster/${name}:${tag}\n`);
  }
}

/** Where the sources are, for people: of what git calls their origin, without whoever may read it there. */
export function sourceOf(origin: string | undefined): string {
  const [, host, path] = /^(?:[^@/:]+@)([^/:]+):(.*)$/.exec(origin ?? "") ?? [];
  const url = URL.parse(host === undefined ? (origin ?? "") : `https://${host}/${path ?? ""}`);
  if (url === null || !["https:", "http:", "ssh:"].includes(url.protocol)) return "unknown";
  return `https://${url.hostname}${url.pathname.replace(/\.git$/, "")}`;
}

/** A folder that is no clone tells nothing. */
function askGit(...words: readonly string[]): string | undefined {
  try {
    return execFileSync("git", words, { cwd: ROOT, encoding: "utf8", stdio: "pipe" }).trim();
  } catch {
    return undefined;
  }
}

if (import.meta.main) {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { tag: { type: "string", default: "dev" }, measure: { type: "boolean", default: false } },
  });
  const names = positionals.length > 0 ? positionals : IMAGES.map(({ name }) => name);
  buildImages(names, values.tag);
  if (values.measure) console.log(await measureImages(names, values.tag));
}
