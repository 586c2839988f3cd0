import { expect, it } from "vitest";
import { readCommittedPage, GENERATED_PAGES, buildReferencePage } from "../reference.ts";

it.each(GENERATED_PAGES)("has the generated page docs/reference/%s as it would be generated", async (name) => {
  expect(await readCommittedPage(name), "npm run reference").toBe(await buildReferencePage(name));
});
