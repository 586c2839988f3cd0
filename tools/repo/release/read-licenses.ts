import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { getName, listPlaces, type Lock } from "../build-sbom.ts";
import { buildLicenses, checkLicenses } from "./licenses.ts";

/** Files of a package with its license; several may apply. */
const LEGAL = /^(?:licen[cs]e|copying|notice)(?:[.-].*)?$/i;

/** Paths in the lock file of packages of other authors that the bundled files are of. */
export function listForeignPlaces(files: readonly string[], lock: Lock): string[] {
  return listPlaces(files, lock).filter((place) => place.includes("node_modules/"));
}

/** The text with the licenses of these packages. Rejects when one is not allowed. */
export async function readLicenses(root: string, lock: Lock, places: readonly string[]): Promise<string> {
  const packages = await Promise.all(
    places.map(async (place) => {
      const locked = lock.packages[place] ?? {};
      const manifest = JSON.parse(await readFile(join(root, place, "package.json"), "utf8")) as { license?: unknown };
      const license = locked.license ?? (typeof manifest.license === "string" ? manifest.license : undefined);
      const text = await readTexts(join(root, place));
      return { name: getName(place, locked), version: locked.version ?? "", license, text };
    }),
  );
  const problems = checkLicenses(packages);
  if (problems.length > 0) throw new Error(`licenses:\n${problems.join("\n")}`);
  return buildLicenses(packages);
}

async function readTexts(folder: string): Promise<string> {
  const entries = (await readdir(folder, { withFileTypes: true })).filter((entry) => entry.isFile());
  const names = entries.map(({ name }) => name).filter((name) => LEGAL.test(name));
  const texts = await Promise.all(names.toSorted().map((name) => readFile(join(folder, name), "utf8")));
  return texts.map((text) => text.replaceAll("\r\n", "\n").trim()).join("\n\n");
}
