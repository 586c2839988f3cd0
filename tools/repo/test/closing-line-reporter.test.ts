import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, it } from "vitest";
import { listSlowFiles } from "../closing-line-reporter.ts";

const ROOT = join(import.meta.dirname, "../../..");

it("lists the twenty slowest files, the slowest first", () => {
  const files = Array.from({ length: 25 }, (_, index) => ({
    file: `f${String(index)}.test.ts`,
    durationMs: 1000 * index,
  }));
  const lines = listSlowFiles(files);
  expect(lines).toHaveLength(21);
  expect(lines.slice(0, 3)).toEqual([
    "Slowest test files (20 of 25):",
    "  24.0 s  f24.test.ts",
    "  23.0 s  f23.test.ts",
  ]);
  expect(lines.at(-1)).toBe("   5.0 s  f5.test.ts");
});

it("orders files with the same time by name", () => {
  const files = ["b", "a", "c"].map((file) => ({ file, durationMs: 100 }));
  expect(listSlowFiles(files).slice(1)).toEqual(["  0.1 s  a", "  0.1 s  b", "  0.1 s  c"]);
});

it("omits files that took no time, and the heading without files", () => {
  expect(listSlowFiles([{ file: "skipped", durationMs: 0 }])).toEqual([]);
  expect(listSlowFiles([{ file: "at", durationMs: 0.5 }])).toHaveLength(2);
  expect(listSlowFiles([{ file: "below", durationMs: 0.4 }])).toEqual([]);
});

it("prints the list before the closing line of a run", () => {
  const run = spawnSync(process.execPath, ["node_modules/vitest/vitest.mjs", "run", "--project", "names", "src"], {
    cwd: ROOT,
    encoding: "utf8",
  });
  expect(run.status, run.stderr).toBe(0);
  const lines = run.stdout.trimEnd().split("\n");
  const heading = lines.findIndex((line) => line.startsWith("Slowest test files ("));
  expect(lines[heading + 1]).toMatch(/^ +\d+\.\d s {2}libs\/names\/src\/\S+\.test\.ts$/);
  expect(lines.at(-1)).toMatch(/^Tests: \d+ passed, 0 failed, 0 skipped$/);
});
