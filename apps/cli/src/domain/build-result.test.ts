import fc from "fast-check";
import { expect, it } from "vitest";
import { buildResultTable } from "./build-result.ts";

const STYLE = { columns: 60, colours: false };

it("names each value by its path", () => {
  const result = { requests: 12, latencyMs: { p50: 0.5, p99: null }, hosts: ["a", "b"], text: "two\nlines" };
  expect(buildResultTable(JSON.stringify(result), STYLE)).toEqual([
    "RESULT         VALUE",
    "requests       12",
    "latencyMs.p50  0.5",
    "latencyMs.p99  null",
    'hosts          ["a","b"]',
    "text           two lines",
  ]);
});

it("shows a text that is no JSON unchanged", () => {
  expect(buildResultTable("{half", STYLE)).toEqual(["RESULT  VALUE", "        {half"]);
});

it("reports how much of a large result it omits", () => {
  const large = Object.fromEntries(Array.from({ length: 500 }, (_, index) => [`k${index}`, index]));
  const lines = buildResultTable(JSON.stringify(large), STYLE);
  expect(lines).toHaveLength(102);
  expect(lines.at(-1)).toBe("…       400 more");
});

it("formats any JSON as a table", () => {
  fc.assert(
    fc.property(fc.json(), (json) => {
      expect(buildResultTable(json, STYLE)[0]).toContain("RESULT");
    }),
  );
});
