import { expect, it } from "vitest";
import { listSome } from "./list-some.ts";

it.each([
  { texts: [], mark: ",", listed: "" },
  { texts: ["a"], mark: ",", listed: "a" },
  { texts: ["a", "b"], mark: ",", listed: "a, b" },
  { texts: ["a", "b", "c"], mark: ",", listed: "a, b and 1 more" },
  { texts: ["a", "b"], mark: ";", listed: "a; b" },
  { texts: ["a", "b", "c", "d"], mark: ";", listed: "a; b; and 2 more" },
] as const)("lists $texts as '$listed'", ({ texts, mark, listed }) => {
  expect(listSome(texts, 2, mark)).toBe(listed);
});
