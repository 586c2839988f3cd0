/**
 * Builds the images of the Dockerfile: `npm run images [-- [--repository REPOSITORY] [--tag TAG] [--push] [--measure] [IMAGE...]]`. --push pushes them.
 * --measure prints a table of their sizes and of the time from `docker run` to ready.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { IMAGES } from "./image-contents.ts";
import { measureImages } from "./measure-images.ts";

const ROOT = join(import.meta.dirname, "../..");

const { version: VERSION } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { version: string };

/** The name of images: `muster/<name>:dev` for docker-compose.yml without a repository, or in a repository with the version as tag, for the chart. */
export type ImagePlace = { readonly repository?: string | undefined; readonly tag?: string | undefined };

/** The reference of an image, for example `registry.example.com/muster/watcher:0.1.0`. */
export function buildImageReference(name: string, place: ImagePlace): string {
  const { repository = "muster", tag = place.repository === undefined ? "dev" : VERSION } = place;
  return `${repository}/${name}:${tag}`;
}

/** Builds the images; throws if the build fails. The output of the engine goes to standard error. */
function buildImages(names: readonly string[], place: ImagePlace): void {
  const args = {
    VERSION,
    REVISION: readGit("rev-parse", "HEAD") ?? "unknown",
    SOURCE: buildSourceUrl(readGit("remote", "get-url", "origin")),
  };
  const labels = Object.entries(args).flatMap(([name, value]) => ["--build-arg", `${name}=${value}`]);
  for (const name of names) {
    const reference = buildImageReference(name, place);
    docker("build", "--quiet", "--build-arg", `APP=${name}`, ...labels, "--tag", reference, ".");
    process.stderr.write(`${reference}\n`);
  }
}

function docker(...args: readonly string[]): void {
  const { status } = spawnSync("docker", args, { cwd: ROOT, stdio: ["ignore", 2, 2] });
  if (status !== 0) throw new Error(`docker ${args.join(" ")} failed`);
}

/** The URL of the sources from the origin of the clone, without credentials. */
export function buildSourceUrl(origin: string | undefined): string {
  const [, host, path] = /^(?:[^@/:]+@)([^/:]+):(.*)$/.exec(origin ?? "") ?? [];
  const url = URL.parse(host === undefined ? (origin ?? "") : `https://${host}/${path ?? ""}`);
  if (url === null || !["https:", "http:", "ssh:"].includes(url.protocol)) return "unknown";
  return `https://${url.hostname}${url.pathname.replace(/\.git$/, "")}`;
}

/** Returns the output of git; undefined where the folder is not a clone. */
export function readGit(...words: readonly string[]): string | undefined {
  try {
    return execFileSync("git", words, { cwd: ROOT, encoding: "utf8", stdio: "pipe" }).trim();
  } catch {
    return undefined;
  }
}

if (import.meta.main) {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      repository: { type: "string" },
      tag: { type: "string" },
      push: { type: "boolean", default: false },
      measure: { type: "boolean", default: false },
    },
  });
  const names = positionals.length > 0 ? positionals : IMAGES.map(({ name }) => name);
  if (values.push && values.repository === undefined) throw new Error("--push needs --repository");
  buildImages(names, values);
  if (values.push) for (const name of names) docker("push", "--quiet", buildImageReference(name, values));
  if (values.measure) console.log(await measureImages(names, (name) => buildImageReference(name, values)));
}
