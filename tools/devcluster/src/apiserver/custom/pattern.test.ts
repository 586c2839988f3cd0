import { expect, it } from "vitest";
import { compilePattern } from "./pattern.ts";

it.each([
  ["(?i)[a-z]+", "AB", true],
  ["^(?i)[a-z]([-a-z0-9]*[a-z0-9])?$", "ConfigMap", true],
  ["^(?i)[a-z]([-a-z0-9]*[a-z0-9])?$", "a_b", false],
  ["\\A[[:alpha:]]+\\z", "ab", true],
  ["^[a-z]+$", "AB", false],
])("reads Go's pattern %s as Go does: %s", (pattern, text, matches) => {
  expect(compilePattern(pattern)?.test(text)).toBe(matches);
});

it("has no expression for what is none", () => {
  expect(compilePattern("(")).toBeUndefined();
});
