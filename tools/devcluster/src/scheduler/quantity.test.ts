import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { milliQuantity } from "./quantity.ts";

describe("milliQuantity", () => {
  it.each([
    ["100m", 100],
    ["1", 1000],
    ["1.5", 1500],
    [".5", 500],
    ["0.1", 100],
    ["2Gi", 2 * 2 ** 30 * 1000],
    ["1k", 1_000_000],
    ["1e3", 1_000_000],
    ["1E", 1e21],
    ["1n", 1],
    ["0", 0],
  ])("reads %s as %d thousandths", (text, milli) => {
    expect(milliQuantity(text)).toBe(milli);
  });

  it.each(["", "m", "1x", "1 Gi", "0x10", "1e", "NaN"])("reads %j as no quantity", (text) => {
    expect(milliQuantity(text)).toBeUndefined();
  });

  it("adds up without rounding errors", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 100_000 }), { maxLength: 20 }), (millis) => {
        const sum = millis.map((milli) => milliQuantity(String(milli / 1000)) ?? NaN).reduce((a, b) => a + b, 0);
        expect(sum).toBe(millis.reduce((a, b) => a + b, 0));
      }),
    );
  });
});
