import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

const ROOT = join(import.meta.dirname, "../../..");
const PREPARE = "node tools/repo/prepare.mjs";

const { scripts } = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8")) as {
  scripts: Readonly<Record<string, string>>;
};
const isHook = (name: string): boolean => name.startsWith("pre") && name.slice("pre".length) in scripts;

describe("npm scripts", () => {
  const commands = Object.entries(scripts).filter(([name]) => !isHook(name));

  it.each(commands)("%s works on a fresh clone: its dependencies are installed first", (name, command) => {
    const [, other] = /^npm run (\S+) /.exec(command) ?? [];
    expect(scripts[`pre${other ?? name}`]).toBe(PREPARE);
  });

  // A shell caches the path of `node`, which is the system's before the installation.
  it.each(Object.keys(scripts).filter(isHook))("%s runs no command in the shell that installed Node", (name) => {
    expect(scripts[name]).toBe(PREPARE);
  });
});
