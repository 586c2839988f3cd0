import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { formatIndexes, parseIndexes } from "./completed-indexes.ts";

const BELOW = 200;
const indexes = fc.uniqueArray(fc.nat({ max: BELOW - 1 })).map((some) => some.sort((a, b) => a - b));

describe("completed indexes", () => {
  it.each([
    ["", []],
    ["0", [0]],
    ["0-3,7", [0, 1, 2, 3, 7]],
    ["1,3,5", [1, 3, 5]],
  ])("are written as %j", (text, list) => {
    expect(formatIndexes(list)).toBe(text);
    expect(parseIndexes(text, BELOW)).toEqual(list);
  });

  it("survive a write and a read", () => {
    fc.assert(
      fc.property(indexes, (list) => {
        expect(parseIndexes(formatIndexes(list), BELOW)).toEqual(list);
      }),
    );
  });

  it("are below the limit, ascending and unique, whatever the text contains", () => {
    const part = fc.oneof(fc.string({ maxLength: 5 }), fc.stringMatching(/^\d{1,6}(-\d{1,6})?$/));
    fc.assert(
      fc.property(fc.array(part), fc.nat({ max: 50 }), (parts, below) => {
        const read = parseIndexes(parts.join(","), below);
        expect(read).toEqual([...new Set(read)].sort((a, b) => a - b));
        for (const index of read) expect(index).toBeLessThan(below);
      }),
    );
  });

  it.each(["x", "-1", "1-", "3-1", "0x2", "1.5", "9999999"])("omit the malformed %j", (text) => {
    expect(parseIndexes(`0,${text},4`, BELOW)).toEqual([0, 4]);
  });
});
