import { expect, it } from "vitest";
import { parseJsonPath } from "./json-path.ts";

const LIST = { a: [{ type: "x" }, { type: "y" }, { type: "z" }] };

it.each([
  [".a[0].type", ["x"]],
  [".a[-1].type", ["z"]],
  [".a[-1:].type", ["z"]],
  [".a[1:].type", ["y", "z"]],
  [".a[:2].type", ["x", "y"]],
  [".a[1:2].type", ["y"]],
  [".a[*].type", ["x", "y", "z"]],
  [".b[-1:].type", []],
])("finds %s", (path, found) => {
  expect(parseJsonPath(path)?.(LIST)).toEqual(found);
});

it.each([".a[", ".a[x]", '.a[?(@.type=="y")]', ".a[1:2:3:4]"])("%s is no path", (path) => {
  expect(parseJsonPath(path)).toBeUndefined();
});
