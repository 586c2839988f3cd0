import { expect, it } from "vitest";
import { makeEqualAmounts } from "./equal-amounts.ts";

const amounts = (cpu: number) => new Map([["cpu", cpu]]);

it("returns one map for equal amounts", () => {
  const equal = makeEqualAmounts();
  const first = equal(amounts(1));
  expect(first).toEqual(amounts(1));
  expect(equal(amounts(1))).toBe(first);
  expect(equal(amounts(2))).toEqual(amounts(2));
  expect(equal(new Map([["memory", 1]]))).not.toBe(first);
});

it("limits the number of maps", () => {
  const equal = makeEqualAmounts(2);
  const first = equal(amounts(1));
  equal(amounts(2));
  expect(equal(amounts(1))).toBe(first);
  equal(amounts(3));
  const again = equal(amounts(1));
  expect(again).toEqual(first);
  expect(again).not.toBe(first);
});
