import fc from "fast-check";
import { expect, it } from "vitest";
import { buildTable, fit, plain } from "./build-table.ts";

const WIDE = { columns: undefined, colours: false };

it("makes each column as wide as it must be", () => {
  expect(
    buildTable(
      ["NAME", "WHY"],
      [
        ["a", "because"],
        ["longer", ""],
      ],
      WIDE,
    ),
  ).toEqual(["NAME    WHY", "a       because", "longer"]);
});

it("takes from the widest column when the terminal is narrow", () => {
  const rows = [["session-1", "pool workers has 1 machine free, 4 are needed", "RUN"]];
  expect(buildTable(["NAME", "WHY", "PHASE"], rows, { columns: 36, colours: false })).toEqual([
    "NAME       WHY                 PHASE",
    "session-1  pool workers has …  RUN",
  ]);
});

it("cuts the first column, which names the row, only when no other can give way", () => {
  const rows = [["http-benchmark-x7k2p", "PROVISION", "3", "12.3s"]];
  expect(buildTable(["NAME", "PHASE", "MACHINES", "AGE"], rows, { columns: 38, colours: false })).toEqual([
    "NAME                  PHA…  MAC…  AGE",
    "http-benchmark-x7k2p  PRO…  3     12.…",
  ]);
});

it("puts colours around texts and not around the space between them", () => {
  expect(buildTable(["A", "B"], [[{ text: "x", colour: "red" }, "y"]], { columns: 80, colours: true })).toEqual([
    "\u001b[1mA\u001b[0m  \u001b[1mB\u001b[0m",
    "\u001b[31mx\u001b[0m  y",
  ]);
});

it("never makes a line longer than the terminal while columns can give way, nor more or fewer lines than rows", () => {
  const cell = fc.string({ unit: "grapheme", maxLength: 60 });
  fc.assert(
    fc.property(fc.array(fc.tuple(cell, cell, cell)), fc.integer({ min: 16, max: 200 }), (rows, columns) => {
      const lines = buildTable(["A", "B", "C"], rows, { columns, colours: false });
      expect(lines).toHaveLength(rows.length + 1);
      for (const line of lines) expect(Array.from(line).length).toBeLessThanOrEqual(columns);
    }),
  );
});

it("lets nothing from elsewhere steer the terminal", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), (text) => {
      // eslint-disable-next-line no-control-regex -- control characters are what this is about
      expect(plain(text)).not.toMatch(/[\u0000-\u001f\u007f-\u009f]/);
    }),
  );
  expect(plain("a\u001b[2Jb\r\nc")).toBe("a[2Jb c");
});

it.each([
  ["short", 10, "short"],
  ["exactly", 7, "exactly"],
  ["longer than that", 7, "longer…"],
  ["x", 0, ""],
  ["xy", 1, "…"],
])("fits %s into %i columns", (text, width, fitted) => {
  expect(fit(text, width)).toBe(fitted);
});
