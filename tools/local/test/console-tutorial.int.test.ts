import { mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildConsole } from "@muster/repo/build-console";
import { findChromium } from "@muster/testkit";
import { describe, expect, it } from "vitest";
import { followTutorial, TUTORIAL } from "./console-tutorial/follow-tutorial.ts";
import { openConsole } from "./console-tutorial/open-console.ts";
import { ELASTIC, POOLS } from "../src/elastic.ts";
import { ROOT } from "../src/root.ts";
import { startWorld } from "./stack-world.ts";

const MAX_PICTURES_BYTES = 600_000;
const executablePath = findChromium();
const suite =
  executablePath === undefined
    ? "the tutorial of the console (skipped: no Chromium in PLAYWRIGHT_CHROMIUM_EXECUTABLE_PATH or on the PATH)"
    : "the tutorial of the console";

describe.skipIf(executablePath === undefined)(suite, () => {
  it("works step by step, with the pictures of the page", { timeout: 600_000 }, async () => {
    await using work = new AsyncDisposableStack();
    const directory = await mkdtemp(join(tmpdir(), "muster-console-"));
    work.defer(() => rm(directory, { recursive: true, force: true }));
    await buildConsole(directory);
    const world = await startWorld({ elastic: ELASTIC, pools: POOLS, env: { GATEWAY_CONSOLE_DIR: directory } });
    work.use(world);
    const { page, link } = work.use(await openConsole(world.stack, executablePath ?? ""));
    const shown: string[] = [];
    await followTutorial(page, { link, show: (picture) => Promise.resolve(shown.push(picture)) });

    const text = await readFile(join(ROOT, TUTORIAL), "utf8");
    const pictures = [...text.matchAll(/\]\((pictures\/console-(\w+)\.png)\)/g)];
    expect(pictures.map(([, , name]) => name)).toEqual(shown);
    const sizes = await Promise.all(pictures.map(([, path = ""]) => stat(join(ROOT, "docs/tutorials", path))));
    expect(sizes.reduce((sum, { size }) => sum + size, 0)).toBeLessThan(MAX_PICTURES_BYTES);
  });
});
