import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { ROOT } from "../../src/root.ts";

export const TUTORIAL = "docs/tutorials/console.md";
/** A session runs for some seconds, on a machine that may be busy. */
const RUN = { timeout: 120_000 };

export type Reader = {
  /** The link that `npm start -- --keep` prints. */
  readonly link: string;
  /** Called where the tutorial has a picture, with its name. */
  readonly show: (picture: string) => Promise<unknown>;
};

/** Follows the tutorial of the console from top to bottom, with its documents. Rejects at the first step that does not work. */
export async function followTutorial(page: Page, { link, show }: Reader): Promise<void> {
  const [hello = "", two = ""] = documentsOf(readFileSync(join(ROOT, TUTORIAL), "utf8"));
  const heading = (name: string) => page.getByRole("heading", { name, exact: true, level: 1 }).waitFor();
  const tab = (name: string) => page.getByRole("button", { name, exact: true }).click();

  await page.goto(link);
  await heading("Overview");
  await page.getByText("0 of 6 held, 6 free").waitFor();

  await page.getByRole("link", { name: "Submit" }).click();
  await page.getByLabel("Documents").fill(hello);
  await page.getByText("its machines are free now").waitFor();
  await show("submit");
  await page.getByRole("button", { name: "Submit it" }).click();
  await page.getByRole("link", { name: "session hello" }).click();
  await heading("hello");
  await page.getByRole("row", { name: "rounds 5" }).waitFor(RUN);
  await page.getByText("DONE").first().waitFor(RUN);
  await show("session");
  await tab("logs");
  await page.getByRole("log").getByText("round 5").waitFor();

  await page.getByRole("link", { name: "Submit" }).click();
  await page.getByLabel("Documents").fill(two);
  await page.getByRole("button", { name: "Submit all 2" }).click();
  await page.getByRole("link", { name: "session second" }).click();
  await heading("second");
  await tab("explanation");
  await page.getByText(/Estimated start: by .*: session\/first ends by then/).waitFor(RUN);
  await show("waits");

  await page.getByRole("link", { name: "Overview" }).click();
  await page.getByText("5 of 6 held, 1 free").waitFor();
  await show("overview");
  await page.getByRole("link", { name: "session/first" }).first().click();
  await heading("first");
  await page.getByRole("button", { name: "Cancel…" }).click();
  await show("cancel");
  await page.getByRole("button", { name: "Cancel it" }).click();
  await page.getByText("CANCELLED").first().waitFor(RUN);

  await page.keyboard.press("g");
  await page.keyboard.press("w");
  await heading("Work");
  await page.keyboard.press("/");
  await page.keyboard.type("second");
  await page.getByRole("row", { name: /second .*RUN/ }).waitFor(RUN);
}

/** The blocks of YAML of a page. */
function documentsOf(page: string): readonly string[] {
  return [...page.matchAll(/^```yaml\n([^]*?)^```$/gm)].map(([, block = ""]) => block);
}
