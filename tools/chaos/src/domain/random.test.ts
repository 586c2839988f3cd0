import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { makeRandom } from "./random.ts";

describe("randomFrom", () => {
  it("repeats its draws for the same seed and purpose, and draws others for another purpose", () => {
    const draws = (seed: number, purpose: string): number[] => {
      const random = makeRandom(seed, purpose);
      return Array.from({ length: 20 }, () => random.integer(0, 1000));
    };
    expect(draws(1, "a")).toEqual(draws(1, "a"));
    expect(draws(1, "a")).not.toEqual(draws(1, "b"));
  });

  it("draws from the whole range, including both ends", () => {
    const random = makeRandom(1, "ends");
    const drawn = new Set(Array.from({ length: 200 }, () => random.integer(3, 6)));
    expect(drawn).toEqual(new Set([3, 4, 5, 6]));
  });

  it("shuffles without losing an item", () => {
    fc.assert(
      fc.property(fc.integer(), fc.array(fc.integer()), (seed, items) => {
        const byValue = (a: number, b: number): number => a - b;
        expect(makeRandom(seed, "s").shuffle(items).sort(byValue)).toEqual([...items].sort(byValue));
      }),
    );
  });

  it("draws keys in proportion to their weights, and never a key with weight 0", () => {
    const random = makeRandom(1, "weights");
    const drawn = Array.from({ length: 3000 }, () => random.weighted({ often: 2, seldom: 1, never: 0 }));
    const often = drawn.filter((key) => key === "often").length;
    expect(often).toBeGreaterThan(1850);
    expect(often).toBeLessThan(2150);
    expect(drawn).not.toContain("never");
  });
});
