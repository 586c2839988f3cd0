import { AxeBuilder } from "@axe-core/playwright";
import { findChromium } from "@muster/testkit";
import { chromium, type Browser, type BrowserContext, type Page } from "playwright-core";
import type { ConsoleWorld } from "./console-world.ts";

export const WIDE = { width: 1280, height: 900 };
export const NARROW = { width: 390, height: 844 };

const executablePath = findChromium();

/** Undefined if a browser exists, else the reason why tests are skipped. */
export const browserMissing =
  executablePath === undefined
    ? "skipped: no Chromium in PLAYWRIGHT_CHROMIUM_EXECUTABLE_PATH or on the PATH"
    : undefined;

export function launchBrowser(): Promise<Browser> {
  return chromium.launch({ ...(executablePath && { executablePath }), args: ["--no-sandbox"] });
}

export type OpenedConsole = {
  readonly context: BrowserContext;
  readonly page: Page;
  /** Errors of the page, and requests to other hosts. */
  readonly wrong: readonly string[];
};

/** Opens a page of a new browser session, signed in by the link. */
export async function openConsole(browser: Browser, world: ConsoleWorld): Promise<OpenedConsole> {
  const wrong: string[] = [];
  const context = await browser.newContext({ viewport: WIDE, colorScheme: "light" });
  const page = await context.newPage();
  page.on("pageerror", ({ message }) => wrong.push(message));
  page.on("console", (message) => {
    if (/Content.Security.Policy|violates/i.test(message.text())) wrong.push(message.text());
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(world.url)) wrong.push(request.url());
  });
  await page.goto(`${world.url}/#token=${world.token}`);
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  return { context, page, wrong };
}

const TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];
/** The rules whose result depends on colors. */
const COLOR_RULES = ["color-contrast", "link-in-text-block"];

/** Returns the violations that axe finds on the page: of all rules of WCAG 2.2 AA, or of those about colors. */
export async function findViolations(page: Page, rules: "all" | "colors" = "all"): Promise<readonly string[]> {
  // The page has no frames, so axe needs no page of its own to join their results.
  const axe = new AxeBuilder({ page }).setLegacyMode(true);
  const { violations } = await (rules === "all" ? axe.withTags(TAGS) : axe.withRules(COLOR_RULES)).analyze();
  return violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 200)}`));
}
