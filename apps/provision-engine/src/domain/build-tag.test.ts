import { expect, it } from "vitest";
import { buildTag } from "./build-tag.ts";

it("prints the notes of a tag in the order of their keys", () => {
  expect(buildTag({ b: "2", a: "1" })).toBe("a: 1, b: 2");
  expect(buildTag({})).toBe("");
});
