import { expect, it } from "vitest";
import { makeKeyIndex } from "./key-index.ts";

it("finds one key, then two, then one under a value", () => {
  const index = makeKeyIndex<readonly string[]>((values) => values);
  const keys = () => index.keys("x").toSorted();
  expect(keys()).toEqual([]);
  index.move("a", undefined, ["x"]);
  expect(keys()).toEqual(["a"]);
  index.move("b", undefined, ["x"]);
  expect(keys()).toEqual(["a", "b"]);
  index.move("a", ["x"], undefined);
  expect(keys()).toEqual(["b"]);
  index.move("other", ["x"], undefined);
  expect(keys()).toEqual(["b"]);
  index.move("b", ["x"], ["y"]);
  expect(keys()).toEqual([]);
  expect(index.keys("y")).toEqual(["b"]);
});

it("throws what the index function throws", () => {
  const index = makeKeyIndex<string>(() => {
    throw new Error("cannot index this");
  });
  expect(() => {
    index.check("a");
  }).toThrow("cannot index this");
});
