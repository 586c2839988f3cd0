import { spawnSync } from "node:child_process";
import type { Base } from "./build-layout.ts";

/** A package of the base image, in the form of a component of CycloneDX. */
export type BasePackage = {
  readonly type: "library" | "application";
  readonly name: string;
  readonly version: string;
  readonly "bom-ref": string;
  readonly purl: string;
};

/** The list of installed packages of Debian has some megabytes at most. */
const MAX_FILE_BYTES = 64 * 1024 * 1024;

/** Reads the packages that dpkg has installed in the bases, and the version of Node; of each once, sorted by name. A base without dpkg has only Node. */
export function readBasePackages(bases: readonly Base[]): readonly BasePackage[] {
  const packages = new Map(bases.flatMap(packagesOf).map((each) => [each["bom-ref"], each]));
  return [...packages.values()].toSorted((a, b) => (a["bom-ref"] < b["bom-ref"] ? -1 : 1));
}

function packagesOf({ layers, env }: Base): readonly BasePackage[] {
  const contents = layers.map(({ content }) => content);
  const release = fieldsOf(readFile(contents, "usr/lib/os-release"), "=");
  const distribution = (release.get("ID") ?? "debian").replaceAll('"', "");
  const distro = `${distribution}-${(release.get("VERSION_ID") ?? "").replaceAll('"', "")}`;
  const installed = readFile(contents, "var/lib/dpkg/status")
    .split("\n\n")
    .map((paragraph) => fieldsOf(paragraph, ": "))
    .filter((fields) => fields.get("Status")?.endsWith(" installed") === true);
  const node = env.find((line) => line.startsWith("NODE_VERSION="))?.split("=")[1];
  return [
    ...installed.map((fields) => {
      const [name = "", version = "", arch = ""] = ["Package", "Version", "Architecture"].map((key) => fields.get(key));
      const purl = `pkg:deb/${distribution}/${encodeURIComponent(name)}@${encodeURIComponent(version)}?arch=${arch}&distro=${distro}`;
      return { type: "library" as const, name, version, "bom-ref": purl, purl };
    }),
    ...(node === undefined ? [] : [nodeOf(node)]),
  ];
}

function nodeOf(version: string): BasePackage {
  const purl = `pkg:generic/node@${version}`;
  return { type: "application", name: "node", version, "bom-ref": purl, purl };
}

/** The content of a file in the uppermost layer that has it; empty where none has. */
function readFile(layers: readonly Buffer[], path: string): string {
  for (const input of layers.toReversed()) {
    // Some layers name their files with a leading `./`. A name that is missing is an error of tar, after the output of the other.
    const args = ["--extract", "--gzip", "--to-stdout", path, `./${path}`];
    const { stdout, error } = spawnSync("tar", args, { input, maxBuffer: MAX_FILE_BYTES });
    if (error !== undefined) throw error;
    if (stdout.length > 0) return stdout.toString();
  }
  return "";
}

/** The first line of each field. Continuation lines begin with a space, which no name of a field does. */
function fieldsOf(text: string, separator: string): ReadonlyMap<string, string> {
  return new Map(
    text.split("\n").flatMap((line) => {
      const at = line.indexOf(separator);
      return at <= 0 || line.startsWith(" ") ? [] : [[line.slice(0, at), line.slice(at + separator.length)] as const];
    }),
  );
}
