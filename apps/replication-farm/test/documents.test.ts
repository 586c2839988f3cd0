import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { TROUBLES } from "../src/domain/troubles.ts";

/** Reasons of rolling updates alone, whose own line states what to do. */
const OF_ROLLS = ["ROLL_STUCK"];

it.each([
  ["what it means", "../../../docs/replica-sets.md", "`", []],
  ["what to do", "../src/domain/advise-set.ts", '"', OF_ROLLS],
])("describe each trouble: %s", (_what, file, quote, missing) => {
  const text = readFileSync(new URL(file, import.meta.url), "utf8");
  expect(TROUBLES.filter((code) => !text.includes(`${quote}${code}${quote}`))).toEqual(missing);
});
