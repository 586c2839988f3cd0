import fc from "fast-check";
import { expect, it } from "vitest";
import { matchesSubject, isOverlapping } from "./subject-pattern.ts";

it.each([
  ["a.b", "a.b", true],
  ["a.b", "a.b.c", false],
  ["a.b.c", "a.b", false],
  ["a.*", "a.b", true],
  ["a.*", "a", false],
  ["a.*.c", "a.b.c", true],
  ["a.*.c", "a.b.d", false],
  ["a.>", "a.b.c", true],
  ["a.>", "a", false],
  [">", "a", true],
])("%s and %s: %s", (pattern, subject, expected) => {
  expect(matchesSubject(pattern, subject)).toBe(expected);
});

const token = fc.constantFrom("a", "b");
const pattern = fc
  .tuple(fc.array(fc.constantFrom("a", "b", "*"), { minLength: 1, maxLength: 3 }), fc.boolean())
  .map(([tokens, open]) => [...tokens, ...(open ? [">"] : [])].join("."));
const subject = fc.array(token, { minLength: 1, maxLength: 5 }).map((tokens) => tokens.join("."));

it("reports an overlap of two patterns whenever one subject matches both", () => {
  fc.assert(
    fc.property(pattern, pattern, subject, (first, second, both) => {
      fc.pre(matchesSubject(first, both) && matchesSubject(second, both));
      expect(isOverlapping(first, second)).toBe(true);
      expect(isOverlapping(second, first)).toBe(true);
    }),
  );
});

it("reports no overlap of patterns without a common subject", () => {
  for (const [first, second] of [
    ["a.b", "a.c"],
    ["a.*", "a.*.c"],
    ["a.>", "b.>"],
  ] as const)
    expect(isOverlapping(first, second)).toBe(false);
});
