import fc from "fast-check";
import { expect, it } from "vitest";
import { shortenWords } from "./shorten.ts";

it.each([
  ["session a does not exist", "session a does not exist"],
  [
    `session ${"a".repeat(150)}${"b".repeat(150)} does not exist`,
    `session ${"a".repeat(40)}…${"b".repeat(20)} does not exist`,
  ],
  [`"${"x".repeat(64)}"`, `"${"x".repeat(64)}"`],
  [`/tmp/${"x".repeat(59)}/${"y".repeat(59)}.yaml:1:2`, `/tmp/${"x".repeat(59)}/${"y".repeat(59)}.yaml:1:2`],
  ["😀".repeat(100), `${"😀".repeat(40)}…${"😀".repeat(20)}`],
])("shortens only words that no name can be: %s", (text, short) => {
  expect(shortenWords(text)).toBe(short);
});

it("leaves no long word, and changes nothing the second time", () => {
  fc.assert(
    fc.property(fc.string({ maxLength: 400, unit: "grapheme" }), (text) => {
      const short = shortenWords(text);
      for (const word of short.split(/[\s/:"'`]+/u)) expect(Array.from(word).length).toBeLessThanOrEqual(64);
      expect(shortenWords(short)).toBe(short);
    }),
  );
});
