import { expect, it } from "vitest";
import { listSome } from "./list-some.ts";

it.each([
  { texts: [], mark: ",", told: "" },
  { texts: ["a"], mark: ",", told: "a" },
  { texts: ["a", "b"], mark: ",", told: "a, b" },
  { texts: ["a", "b", "c"], mark: ",", told: "a, b and 1 more" },
  { texts: ["a", "b"], mark: ";", told: "a; b" },
  { texts: ["a", "b", "c", "d"], mark: ";", told: "a; b; and 2 more" },
] as const)("tells $texts as '$told'", ({ texts, mark, told }) => {
  expect(listSome(texts, 2, mark)).toBe(told);
});
