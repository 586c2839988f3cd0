import { readFile } from "node:fs/promises";
import { chromium, type Browser, type Page } from "playwright-core";
import type { Stack } from "../../src/stack.ts";

const VIEWPORT = { width: 1180, height: 720 };

/** The console of a stack in a browser, and the link that signs in to it. */
export type OpenConsole = AsyncDisposable & { readonly page: Page; readonly link: string };

export async function openConsole({ api }: Pick<Stack, "api">, executablePath: string): Promise<OpenConsole> {
  const token = (await readFile(api.tokenFile, "utf8")).trim();
  const browser: Browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  const page = await browser.newPage({ viewport: VIEWPORT, colorScheme: "light", locale: "en-GB", timezoneId: "UTC" });
  return { page, link: `${api.url}/#token=${token}`, [Symbol.asyncDispose]: () => browser.close() };
}
