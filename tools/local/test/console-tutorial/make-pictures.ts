/** Creates the pictures of the console's tutorial: follows its steps in a browser, on a separate stack. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildConsole } from "@muster/repo/build-console";
import { findChromium } from "@muster/testkit";
import { ELASTIC, POOLS } from "../../src/elastic.ts";
import { ROOT } from "../../src/root.ts";
import { startStack } from "../../src/stack.ts";
import { followTutorial } from "./follow-tutorial.ts";
import { openConsole } from "./open-console.ts";

const FOLDER = join(ROOT, "docs/tutorials/pictures");

const executablePath = findChromium();
if (executablePath === undefined)
  throw new Error("no Chromium: set PLAYWRIGHT_CHROMIUM_EXECUTABLE_PATH, or put chromium on the PATH");
await using work = new AsyncDisposableStack();
const directory = await mkdtemp(join(tmpdir(), "muster-pictures-"));
work.defer(() => rm(directory, { recursive: true, force: true }));
await buildConsole(join(directory, "console"));
const stack = work.use(
  await startStack({
    directory: join(directory, "stack"),
    pools: POOLS,
    elastic: ELASTIC,
    baseEnv: process.env,
    env: { GATEWAY_CONSOLE_DIR: join(directory, "console") },
    signal: new AbortController().signal,
    onProgress: console.log,
  }),
);
const { page, link } = work.use(await openConsole(stack, executablePath));
await followTutorial(page, {
  link,
  show: (picture) => page.screenshot({ path: join(FOLDER, `console-${picture}.png`), animations: "disabled" }),
});
