import { spawnSync } from "node:child_process";
import { existsSync, mkdtempDisposableSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Base } from "./build-layout.ts";

/** A package of the base image, in the form of a component of CycloneDX. */
export type BasePackage = {
  readonly type: "library" | "application";
  readonly name: string;
  readonly version: string;
  readonly "bom-ref": string;
  readonly purl: string;
};

const RELEASE = "usr/lib/os-release";
const STATUS = "var/lib/dpkg/status";

/** Reads the packages that dpkg has installed in the bases, and the version of Node; of each once, sorted by name. A base without dpkg has only Node. */
export function readBasePackages(bases: readonly Base[]): readonly BasePackage[] {
  const packages = new Map(bases.flatMap(readPackages).map((each) => [each["bom-ref"], each]));
  return [...packages.values()].toSorted((a, b) => (a["bom-ref"] < b["bom-ref"] ? -1 : 1));
}

function readPackages({ layers, env }: Base): readonly BasePackage[] {
  const files = readFiles(
    layers.map(({ content }) => content),
    [RELEASE, STATUS],
  );
  const release = parseFields(files[RELEASE], "=");
  const distribution = (release.get("ID") ?? "debian").replaceAll('"', "");
  const distro = `${distribution}-${(release.get("VERSION_ID") ?? "").replaceAll('"', "")}`;
  const installed = files[STATUS].split("\n\n")
    .map((paragraph) => parseFields(paragraph, ": "))
    .filter((fields) => fields.get("Status")?.endsWith(" installed") === true);
  const node = env.find((line) => line.startsWith("NODE_VERSION="))?.split("=")[1];
  return [
    ...installed.map((fields) => {
      const [name = "", version = "", arch = ""] = ["Package", "Version", "Architecture"].map((key) => fields.get(key));
      const purl = `pkg:deb/${distribution}/${encodeURIComponent(name)}@${encodeURIComponent(version)}?arch=${arch}&distro=${distro}`;
      return { type: "library" as const, name, version, "bom-ref": purl, purl };
    }),
    ...(node === undefined ? [] : [buildNodePackage(node)]),
  ];
}

function buildNodePackage(version: string): BasePackage {
  const purl = `pkg:generic/node@${version}`;
  return { type: "application", name: "node", version, "bom-ref": purl, purl };
}

/**
 * The content of the files in the uppermost layer that has each; empty where none has. Unpacks each layer once: a later layer replaces the files of an earlier
 * one.
 */
function readFiles<Path extends string>(
  layers: readonly Buffer[],
  paths: readonly Path[],
): Readonly<Record<Path, string>> {
  using folder = mkdtempDisposableSync(join(tmpdir(), "muster-base-"));
  // Some layers name their files with a leading `./`. A name that is missing is an error of tar, after the output of the other.
  const names = paths.flatMap((path) => [path, `./${path}`]);
  for (const input of layers) {
    const args = ["--extract", "--gzip", "--directory", folder.path, ...names];
    const { error } = spawnSync("tar", args, { input, stdio: ["pipe", "ignore", "ignore"] });
    if (error !== undefined) throw error;
  }
  const contents = paths.map((path) => [path, readIfPresent(join(folder.path, path))]);
  return Object.fromEntries(contents) as Record<Path, string>;
}

function readIfPresent(file: string): string {
  return existsSync(file) ? readFileSync(file, "utf8") : "";
}

/** The first line of each field. Continuation lines begin with a space, which no name of a field does. */
function parseFields(text: string, separator: string): ReadonlyMap<string, string> {
  return new Map(
    text.split("\n").flatMap((line) => {
      const at = line.indexOf(separator);
      return at <= 0 || line.startsWith(" ") ? [] : [[line.slice(0, at), line.slice(at + separator.length)] as const];
    }),
  );
}
