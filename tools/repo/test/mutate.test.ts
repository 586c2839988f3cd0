import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  findEquivalence,
  equivalentMutants,
  isSampled,
  findOmission,
  onOneLine,
  getOriginal,
} from "../mutation-checker.ts";
import { listMutatedProjects } from "../mutation-scope.ts";

const ROOT = join(import.meta.dirname, "../../..");

function mutantAt(line: number, column: number, endLine: number, endColumn: number, replacement = "false") {
  return {
    id: "1",
    fileName: "f.ts",
    replacement,
    location: { start: { line, column }, end: { line: endLine, column: endColumn } },
  };
}

describe("mutated files", () => {
  const projects = listMutatedProjects(ROOT);

  it("are domain/ of every app and files of three libraries, and exist", () => {
    expect(projects.map(({ name }) => name)).toContain("session-controller");
    expect(projects.filter(({ root }) => root.startsWith("libs/")).map(({ name }) => name)).toEqual([
      "bus",
      "kube",
      "store",
    ]);
    for (const { files } of projects) {
      for (const file of files) expect(existsSync(join(ROOT, file)), file).toBe(true);
    }
  });
});

describe("sample of mutants", () => {
  const mutants = Array.from({ length: 1000 }, (_, line) => mutantAt(line, 0, line, 1));
  const sample = (share: number, seed: string) => mutants.filter((mutant) => isSampled("f.ts", mutant, share, seed));

  it("has about the requested share, and is the same for the same seed", () => {
    const some = sample(0.3, "1");
    expect(some.length).toBeGreaterThan(250);
    expect(some.length).toBeLessThan(350);
    expect(sample(0.3, "1")).toEqual(some);
    expect(sample(0.3, "2")).not.toEqual(some);
    expect(sample(1, "1")).toEqual(mutants);
    expect(sample(0, "1")).toEqual([]);
  });

  it("omits mutants outside the sample", () => {
    expect(findOmission("f.ts", mutantAt(0, 0, 0, 1), "a", '[0,"1"]')).toBe("outside the sample");
    expect(findOmission("f.ts", mutantAt(0, 0, 0, 1), "a", '[1,"1"]')).toBeUndefined();
  });
});

describe("original code of a mutant", () => {
  it("is cut from one line or several", () => {
    expect(getOriginal("const a = b > c;", mutantAt(0, 10, 0, 15))).toBe("b > c");
    expect(getOriginal("x\nf(\n  a,\n)\ny", mutantAt(1, 0, 3, 1))).toBe("f(\n  a,\n)");
    expect(onOneLine("f(\n  a,\n)")).toBe("f( a, )");
  });
});

it("finds an equivalent mutant by the text of its line, not by its number", () => {
  const known = [
    { file: "f.ts", line: "a(b > c);", original: "b > c", mutant: "b >= c", reason: "Equal ones differ in nothing." },
  ];
  const find = (source: string, line: number, replacement: string, file = "f.ts") =>
    findEquivalence(file, mutantAt(line, 4, line, 9, replacement), source, known);
  expect(find("  a(b > c);", 0, "b >= c")).toBe("Equal ones differ in nothing.");
  expect(find("\n  a(b > c);", 1, "b >= c")).toBe("Equal ones differ in nothing.");
  expect(find("  a(b > c);", 0, "b < c")).toBeUndefined();
  expect(find("  x(b > c);", 0, "b >= c")).toBeUndefined();
  expect(find("  a(b > c);", 0, "b >= c", "g.ts")).toBeUndefined();
});

it("lists equivalent mutants of code that exists, each with a reason", () => {
  for (const { file, line, original, mutant, reason } of equivalentMutants) {
    const lines = readFileSync(join(ROOT, file), "utf8").split("\n");
    expect(
      lines.map((each) => each.trim()),
      file,
    ).toContain(line);
    // Code of several lines begins on this line.
    expect(line).toContain(original.split(" ")[0]);
    expect(mutant).not.toBe(original);
    expect(reason).toMatch(/\.$/);
  }
});

it("refuses a project that is not mutated", () => {
  const run = spawnSync(process.execPath, ["tools/repo/mutate.ts", "nothing"], { cwd: ROOT, encoding: "utf8" });
  expect(run.status).toBe(2);
  expect(run.stderr).toContain("nothing is not a mutated project; choose one of: cli, ");
});
