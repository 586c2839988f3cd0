import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { TROUBLES } from "../src/adapters/messages.ts";

it("the documents say of each trouble what it means", () => {
  const text = readFileSync(new URL("../../../docs/replica-sets.md", import.meta.url), "utf8");
  expect(Object.keys(TROUBLES).filter((code) => !text.includes(`\`${code}\``))).toEqual([]);
});
