import fc from "fast-check";
import { expect, it } from "vitest";
import { buildTable, fitText, escapeControls, computeTextWidth } from "./build-table.ts";

const WIDE = { columns: undefined, colours: false };

it("makes each column as wide as its cells", () => {
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

it("narrows the widest column when the terminal is narrow", () => {
  const rows = [["session-1", "pool workers has 1 machine free, 4 are needed", "RUN"]];
  expect(buildTable(["NAME", "WHY", "PHASE"], rows, { columns: 36, colours: false })).toEqual([
    "NAME       WHY                 PHASE",
    "session-1  pool workers has …  RUN",
  ]);
});

it.each([
  [48, ["NAME                  PHASE      MACHINES  AGE", "http-benchmark-x7k2p  PROVISION  3         12.3s"]],
  [40, ["NAME                  PHASE      AGE", "http-benchmark-x7k2p  PROVISION  12.3s"]],
  [34, ["NAME                  PHASE", "http-benchmark-x7k2p  PROVISION"]],
  [28, ["NAME                  PHASE", "http-benchmark-x7k2p  PROVI…"]],
  [12, ["NAME    PHA…", "http-…  PRO…"]],
  [5, ["NAME", "http…"]],
])("leaves out whole columns rather than cutting words, in %i columns", (columns, lines) => {
  const rows = [["http-benchmark-x7k2p", "PROVISION", "3", "12.3s"]];
  expect(buildTable(["NAME", "PHASE", "MACHINES", "AGE"], rows, { columns, colours: false })).toEqual(lines);
});

it("shows everything in full if standard output is no terminal", () => {
  const long = "x".repeat(500);
  expect(buildTable(["NAME", "KIND", "WHY"], [[long, "job", long]], WIDE)[1]).toBe(`${long}  job   ${long}`);
});

it("counts two columns for wide letters and none for accents", () => {
  const rows = [
    ["日本語", "a"],
    ["e\u0301te\u0301", "b"],
    ["👩‍💻 ok", "c"],
  ];
  expect(buildTable(["NAME", "X"], rows, WIDE)).toEqual([
    "NAME    X",
    "日本語  a",
    "e\u0301te\u0301     b",
    "👩‍💻 ok   c",
  ]);
  expect(fitText("日本語", 5)).toBe("日本…");
  expect(fitText("日本語", 4)).toBe("日…");
});

it("puts colours around texts and not around the space between them", () => {
  expect(buildTable(["A", "B"], [[{ text: "x", colour: "red" }, "y"]], { columns: 80, colours: true })).toEqual([
    "\u001b[1mA\u001b[0m  \u001b[1mB\u001b[0m",
    "\u001b[31mx\u001b[0m  y",
  ]);
});

it("never makes a line longer than the terminal nor more or fewer lines than rows", () => {
  const cell = fc.string({ unit: "grapheme", maxLength: 60 });
  fc.assert(
    fc.property(fc.array(fc.tuple(cell, cell, cell)), fc.integer({ min: 1, max: 200 }), (rows, columns) => {
      const lines = buildTable(["A", "B", "C"], rows, { columns, colours: false });
      expect(lines).toHaveLength(rows.length + 1);
      for (const line of lines) expect(computeTextWidth(line)).toBeLessThanOrEqual(columns);
    }),
  );
});

it("lets no foreign text control the terminal", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), (text) => {
      // eslint-disable-next-line no-control-regex -- control characters are what this is about
      expect(escapeControls(text)).not.toMatch(/[\u0000-\u001f\u007f-\u009f]/);
    }),
  );
  expect(escapeControls("a\u001b[2Jb\r\nc")).toBe("a[2Jb c");
  // These characters would show the rest of the line in another order.
  expect(escapeControls("a\u202eb\u2066c\u200fd\u061ce")).toBe("abcde");
});

it.each([
  ["short", 10, "short"],
  ["exactly", 7, "exactly"],
  ["longer than that", 7, "longer…"],
  ["x", 0, ""],
  ["xy", 1, "…"],
])("fits %s into %i columns", (text, width, fitted) => {
  expect(fitText(text, width)).toBe(fitted);
});
