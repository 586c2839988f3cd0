import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { findImportCycles, readImports } from "../import-cycles.ts";

const imports = readImports(fileURLToPath(new URL("../../..", import.meta.url)));

it("finds no import cycle between files, for types and values", () => {
  expect(findImportCycles(imports)).toEqual([]);
});

it("reads the imports of a file", () => {
  expect(imports.get("tools/repo/test/import-cycles.test.ts")).toEqual(["tools/repo/import-cycles.ts"]);
});

it.each([
  ["no cycle", { a: ["b", "c"], b: ["c"], c: [] }, []],
  ["a file that imports itself", { a: ["a"] }, [["a"]]],
  ["two files that import each other", { a: ["b"], b: ["a"], c: ["a"] }, [["a", "b"]]],
  [
    "two cycles, where one reaches the other",
    { a: ["b", "d"], b: ["c"], c: ["a"], d: ["e"], e: ["d"] },
    [
      ["a", "b", "c"],
      ["d", "e"],
    ],
  ],
])("recognises %s", (_what, graph, cycles) => {
  expect(findImportCycles(new Map(Object.entries(graph)))).toEqual(cycles);
});
