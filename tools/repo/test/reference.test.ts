import { expect, it } from "vitest";
import { committedPage, GENERATED_PAGES, referencePage } from "../reference.ts";

it.each(GENERATED_PAGES)("has the generated page docs/reference/%s as it would be generated", async (name) => {
  expect(await committedPage(name), "npm run reference").toBe(await referencePage(name));
});
