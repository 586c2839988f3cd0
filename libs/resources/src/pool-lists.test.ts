import { expect, it } from "vitest";
import { indexPoolLists } from "./pool-lists.ts";

it("has each list once, in the order of the needs, and another one for another order", () => {
  const needs = [{ otherPools: ["b", "c"] }, {}, { otherPools: ["c", "b"] }, { otherPools: ["b", "c"] }];
  expect(indexPoolLists(needs)).toEqual({
    poolLists: [{ pools: ["b", "c"] }, { pools: ["c", "b"] }],
    indexes: [1, 0, 2, 1],
  });
});
