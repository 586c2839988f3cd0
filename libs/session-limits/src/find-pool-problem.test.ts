import { expect, it } from "vitest";
import { findOptionsProblem, findPoolProblem } from "./find-pool-problem.ts";

const names = (count: number) => Array.from({ length: count }, (_, index) => `p${index}`);

it.each<[string, readonly string[], number | undefined]>([
  ["accepts one pool", ["a"], undefined],
  ["accepts as many pools as a need", names(8), undefined],
  ["refuses one more", names(9), 8],
  ["refuses no name at all", [""], 0],
  ["refuses an empty name among others", ["a", ""], 1],
  ["refuses a name that is no label value", ["a", "b/c"], 1],
  ["refuses a pool that is named twice", ["a", "b", "a"], 2],
])("%s", (_title, pools, index) => {
  expect(findPoolProblem(pools)?.index).toBe(index);
});

it("counts each list of pools once", () => {
  const accepting = (...pools: string[]) => ({ pool: pools[0]!, otherPools: pools.slice(1) });
  const lists = [accepting("a", "b", "c", "d"), accepting("b", "a", "c", "d")];
  expect(findOptionsProblem([...lists, ...lists, accepting("a")])).toBeUndefined();
  expect(findOptionsProblem([...lists, accepting("a", "b")])).toMatch(/^accept 32 combinations of pools; 16 at most/);
});
