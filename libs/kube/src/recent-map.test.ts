import { expect, it } from "vitest";
import { makeRecentMap } from "./recent-map.ts";

it("makes a missing value once", () => {
  const map = makeRecentMap<number>(2);
  expect(map.getOr("a", () => 1)).toBe(1);
  expect(map.getOr("a", () => 2)).toBe(1);
  expect(map.get("a")).toBe(1);
  expect(map.get("b")).toBeUndefined();
  expect(map.size).toBe(1);
});

it("forgets the least recently used entry, and only for a new one", () => {
  const map = makeRecentMap<string>(2);
  map.getOr("a", () => "a");
  map.getOr("b", () => "b");
  map.getOr("b", () => "b");
  expect(map.size).toBe(2);
  map.get("a");
  map.getOr("c", () => "c");
  expect(["a", "b", "c"].map((key) => map.get(key))).toEqual(["a", undefined, "c"]);
  expect(map.size).toBe(2);
});
