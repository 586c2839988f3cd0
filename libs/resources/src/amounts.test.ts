import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseAmount, parseAmounts } from "./amounts.ts";

describe("an amount", () => {
  it.each([
    ["cpu", "100m", 100],
    ["cpu", "1", 1000],
    ["cpu", "1.5", 1500],
    ["cpu", ".5", 500],
    ["cpu", "0.1", 100],
    ["cpu", "1n", 1],
    ["cpu", "2k", 2_000_000],
    ["memory", "2Gi", 2 * 2 ** 30],
    ["memory", "1.5G", 1.5e9],
    ["memory", "1e3", 1000],
    ["memory", "100m", 1],
    ["nvidia.com/gpu", "8", 8],
    ["ephemeral-storage", "1E", 1e18],
    ["pods", "0", 0],
    ["memory", " 1Gi ", 2 ** 30],
  ])("of %s from %j is %d", (resource, text, amount) => {
    expect(parseAmount(resource, text)).toBe(amount);
  });

  it.each(["", "m", "1x", "1 Gi", "0x10", "1e", "NaN", "4gi", "1.2.3"])("is none for %j", (text) => {
    expect(parseAmount("cpu", text)).toBeUndefined();
  });

  it("adds up without rounding errors", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 100_000 }), { maxLength: 20 }), (millis) => {
        const sum = millis.map((milli) => parseAmount("cpu", String(milli / 1000)) ?? NaN).reduce((a, b) => a + b, 0);
        expect(sum).toBe(millis.reduce((a, b) => a + b, 0));
      }),
    );
  });

  it("counts a text that is not a quantity as zero", () => {
    expect([...parseAmounts({ cpu: "2", memory: "much" })]).toEqual([
      ["cpu", 2000],
      ["memory", 0],
    ]);
  });
});
