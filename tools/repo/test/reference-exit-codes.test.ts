import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";

const ROOT = join(import.meta.dirname, "../../..");
const read = (path: string): Promise<string> => readFile(join(ROOT, path), "utf8");

/** Joined from two strings, so that Nx infers no dependency on the program. */
const START = join("tools/local/src", "main.ts");
/** The files of a program in which its exit codes are. A program that ends without setting one exits with 0. */
const PROGRAMS: Readonly<Record<string, readonly string[]>> = {
  "npm start": [START],
  "npm run chaos": ["tools/chaos/src/command-line.ts", "tools/chaos/src/run-seeds.ts"],
  "npm run simulate": ["tools/chaos/src/command-line.ts", "tools/simulate/src/run-seeds.ts"],
  "npm run mutate": ["tools/repo/mutate.ts"],
  "npm run compose-cluster": ["tools/local/src/containers/compose-cluster/main.ts"],
};
const CODES = /(?:\breturn|exitCode =|KILLED =) (?:[\w. =]+ \? )?(\d+)(?: : (\d+))?;/g;

async function codesOf(files: readonly string[]): Promise<number[]> {
  const texts = await Promise.all(files.map(read));
  const found = texts.flatMap((text) => [...text.matchAll(CODES)].flatMap(([, code, other]) => [code, other]));
  const codes = found.filter((code) => code !== undefined).map(Number);
  return [...new Set([0, ...codes])].toSorted((one, other) => one - other);
}

async function sectionOf(heading: string): Promise<string> {
  const [, after = ""] = (await read("docs/reference/exit-codes.md")).split(`## ${heading}\n`);
  return after.split("\n## ")[0] ?? "";
}

it("has exactly the exit codes of services", async () => {
  const shown = [...(await sectionOf("Services")).matchAll(/^\| (\d+) +\|/gm)].map(([, code]) => Number(code));
  expect(shown).toEqual(await codesOf(["libs/service/src/run-service.ts"]));
});

it("has exactly the exit codes of the programs of the repository", async () => {
  const rows = (await sectionOf("Programs of the repository")).split("\n").filter((line) => line.startsWith("|"));
  const [head = [], , ...programs] = rows.map((row) =>
    row
      .split("|")
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
  const shown = programs.map(([name = "", ...cells]) => {
    const codes = cells.flatMap((cell, at) => (cell === "-" ? [] : [Number(head[at + 1])]));
    return [name.replaceAll("`", ""), codes];
  });
  const known = Object.entries(PROGRAMS).map(async ([name, files]) => [name, await codesOf(files)] as const);
  expect(shown).toEqual(await Promise.all(known));
});
