import { until } from "@muster/testkit";
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { browserMissing, launchBrowser, openConsole, type OpenedConsole } from "./console-browser.ts";
import { startConsoleWorld, type ConsoleWorld } from "./console-world.ts";
import { sampleAnswers } from "./sample-world.ts";

const SAMPLE = { machines: 48, work: 12, long: false };
const DOCUMENT =
  "apiVersion: muster.dev/v1\nkind: Session\nmetadata: { name: echo }\nspec:\n  components:\n    - { name: driver, kind: driver, pool: drivers, image: a }\n";

describe.skipIf(browserMissing)(`the pages of the console${browserMissing ? ` (${browserMissing})` : ""}`, () => {
  let browser: Browser;
  let world: ConsoleWorld;
  let opened: OpenedConsole;
  let page: Page;

  beforeAll(async () => {
    world = await startConsoleWorld({});
    browser = await launchBrowser();
  });

  afterAll(async () => {
    await browser.close();
    await world[Symbol.asyncDispose]();
  });

  beforeEach(async () => {
    Object.assign(world.answers, sampleAnswers(SAMPLE, Date.now()));
    opened = await openConsole(browser, world);
    ({ page } = opened);
  });

  afterEach(async () => {
    await opened.context.close();
    expect(opened.wrong).toEqual([]);
  });

  const go = (path: string) => page.goto(`${world.url}${path}`);
  const asked = (method: string) => world.received.findLast((each) => each.method === method)?.request;

  it("shows each pool as a field of its machines: who has them since when, free, booting and lost", async () => {
    const field = page.getByRole("img", { name: /^Machines of gpu:/ });
    await field.waitFor();
    expect(await field.getAttribute("aria-label")).toBe("Machines of gpu: 33 held, 13 free, 2 booting, 2 lost");
    const pool = page.getByRole("article", { name: "Pool gpu" });
    expect(await pool.innerText()).toMatch(/session\/bench-1 for 1m/);
    await field.hover({ position: { x: 5, y: 5 } });
    await pool.getByText(/gpu-node-0.*bench-0/).waitFor();
  });

  it("shows queues with used, nominal and borrowed amounts, what waits by reason, and what failed lately", async () => {
    await page.getByText("32 of 24, 8 borrowed").waitFor();
    const waits = page.getByRole("region", { name: "What waits" });
    await waits.getByText("pool gpu has 3 free machines, and 8 are needed").waitFor();
    const failures = page.getByRole("region", { name: "What failed lately" });
    await failures.getByRole("link", { name: "bench-3", exact: true }).waitFor();
    await failures.getByText("worker-0 failed 4 times; 3 are allowed").waitFor();
    await waits.getByRole("link", { name: /POOL_AVAILABILITY/ }).click();
    await page.getByRole("heading", { name: "Work", level: 1 }).waitFor();
    expect(page.url()).toBe(`${world.url}/workloads?q=POOL_AVAILABILITY`);
  });

  it("has sessions, jobs, replica sets and leases in one list", async () => {
    await go("/workloads");
    await page.getByText("16 of 16").waitFor();
    const filters = [
      ["session", "bench-0"],
      ["job", "train"],
      ["replica-set", "web"],
      ["lease", "3-1"],
    ] as const;
    for (const [kind, name] of filters) {
      await page.getByLabel("Kind").selectOption(kind);
      await page.getByRole("link", { name, exact: true }).waitFor();
      expect(page.url()).toContain(`kind=${kind}`);
    }
  });

  it("shows the members of a job on a timeline: waiting, starting, running", async () => {
    await go("/workloads/job/default/train");
    const members = page.getByRole("table", { name: "Members" });
    await members.getByRole("row", { name: /worker-0 .*waiting 7m .*starting 1m .*running 7m.* so far/ }).waitFor();
    const classes = await members
      .locator("svg")
      .first()
      .locator("rect.phase")
      .evaluateAll((bars) => bars.map((bar) => bar.getAttribute("class")));
    expect(classes.map((each) => each?.split(" ").at(-1))).toEqual(["waiting", "starting", "running"]);
  });

  it("shows the components of a session on a timeline, one row for each", async () => {
    await go("/workloads/session/bench-0");
    const steps = page.getByRole("table", { name: "Steps of components" });
    for (const name of ["driver", "server-0"])
      await steps
        .getByRole("row", { name: new RegExp(`${name} .*waiting 40s .*starting 20s .*running .* so far`) })
        .waitFor();
    expect(await steps.getByRole("row").count()).toBe(3);
  });

  it("appends to a log while it is written, and shows its end until the user stops to follow it", async () => {
    let text = Array.from({ length: 200 }, (_, line) => `line ${line}\n`).join("");
    let grown = Promise.withResolvers<undefined>();
    const append = (more: string): void => {
      text += more;
      grown.resolve(undefined);
      grown = Promise.withResolvers();
    };
    world.answers["getLogs"] = async ({ offset }) => {
      if (Number(offset) >= text.length) await grown.promise;
      const chunk = new TextEncoder().encode(text.slice(Number(offset)));
      return { chunk, nextOffset: text.length, complete: false };
    };
    await go("/workloads/session/bench-0?tab=logs");
    const log = page.getByRole("log");
    await log.getByText("line 199", { exact: true }).waitFor();
    append("appended\n");
    await log.getByText("appended", { exact: true }).waitFor();
    await page.getByLabel("Follow").uncheck();
    await log.evaluate((element) => element.scrollTo({ top: 0 }));
    append("afterwards\n");
    await page.getByText(/^202 lines/).waitFor();
    expect(await log.evaluate(({ scrollTop }) => scrollTop)).toBe(0);
    append("");
  });

  it("shows the events, the YAML and the explanation of a piece of work, and a link to its trace in Jaeger", async () => {
    await go("/workloads/job/default/train?tab=events");
    await page.getByRole("row", { name: /Started Pod\/train-worker-0 started the container/ }).waitFor();
    await page.getByRole("button", { name: "Explanation" }).click();
    await page.getByText("the driver runs").waitFor();
    await page.getByRole("button", { name: "Document" }).click();
    await page.getByText("kind: Job").waitFor();
    const trace = page.getByRole("link", { name: "trace" });
    expect(await trace.getAttribute("href")).toBe("http://jaeger.test/trace/0af7651916cd43dd8448eb211c80319c");
  });

  it("scales a replica set after a confirmation", async () => {
    world.answers["scaleReplicaSet"] = () => ({});
    await go("/workloads/replica-set/web");
    await page.getByRole("button", { name: "Scale…" }).click();
    await page.getByRole("spinbutton").fill("4");
    await page.getByRole("button", { name: "Scale it" }).click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    expect(asked("scaleReplicaSet")).toMatchObject({ replicasDesired: 4, expected: 3 });
  });

  it("shows the tree of queues, each with its order: who is next and why", async () => {
    await go("/queues");
    await page.getByText("below company; BestEffortFIFO; 4 admitted, 2 waiting").waitFor();
    const indents = await page
      .getByRole("listitem")
      .filter({ has: page.getByRole("heading", { level: 2 }) })
      .evaluateAll((cards) => cards.map((card) => `${card.classList.value} ${card.querySelector("h2")?.textContent}`));
    expect(indents).toEqual(["card depth0 company", "card depth1 idle", "card depth1 research"]);
    const order = page.getByRole("region", { name: "Requests that wait in research" }).getByRole("row");
    await order.filter({ hasText: "job/train" }).waitFor();
    const [, first, second] = await order.allInnerTexts();
    expect(first).toMatch(/session\/urgent[\s\S]*WAITING_FOR_QUOTA/);
    expect(second).toMatch(/job\/train[\s\S]*POOL_AVAILABILITY/);
  });

  it("shows what the scaler makes, for whom and at what cost, and terminates one after a confirmation", async () => {
    world.answers["terminateNode"] = () => ({});
    await go("/nodes");
    await page.getByRole("row", { name: /scaled-1 .*CREATING .*p5.48xlarge .*98.32 .*job\/train\/0/ }).waitFor();
    await page.getByText("4 of 4, 393.28 an hour").waitFor();
    await page.getByRole("row", { name: /scaled-4 .*CLAIMED .*session\/bench-0/ }).waitFor();
    await page.getByRole("button", { name: "Terminate scaled-4…" }).click();
    await page.getByText("It works for session/bench-0.").waitFor();
    expect(asked("terminateNode")).toBeUndefined();
    await page.getByRole("button", { name: "Terminate it" }).click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    expect(asked("terminateNode")).toMatchObject({ name: "scaled-4" });
  });

  it("reads a document that is dropped", async () => {
    await go("/submit");
    const dropped = await page.evaluateHandle((text) => {
      const transfer = new DataTransfer();
      transfer.items.add(new File([text], "echo.yaml"));
      return transfer;
    }, DOCUMENT);
    await page.getByLabel("Documents").dispatchEvent("drop", { dataTransfer: dropped });
    await page.getByText("Session echo fits its schema.").waitFor();
  });

  it("does not claim that a document of a kind without a schema fits one", async () => {
    world.answers["checkJob"] = () => ({ problems: [], warnings: [] });
    await go("/submit");
    await page
      .getByLabel("Documents")
      .fill("kind: TFJob\napiVersion: kubeflow.org/v1\nmetadata: { name: net }\nspec: {}\n");
    await page.getByText("TFJob net has no schema here: the plan checks it.").waitFor();
    expect(await page.getByText("fits its schema").count()).toBe(0);
    await page.getByText("it can be submitted now").waitFor();
  });

  it("stores the draft once for many keys, and at the end of the page", async () => {
    await page.addInitScript(() => {
      const { setItem } = Storage.prototype;
      Object.assign(window, { stored: [] });
      Storage.prototype.setItem = function (key: string, value: string) {
        if (key.startsWith("muster-draft")) (window as unknown as { stored: string[] }).stored.push(value);
        setItem.call(this, key, value);
      };
    });
    await go("/submit");
    const stored = () => page.evaluate(() => (window as unknown as { readonly stored: readonly string[] }).stored);
    const editor = page.getByLabel("Documents");
    await editor.evaluate((element: HTMLTextAreaElement) => {
      const set = Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, "value")?.set;
      for (let count = 1; count <= 50; count += 1) {
        set?.call(element, "x".repeat(count));
        element.dispatchEvent(new Event("input", { bubbles: true }));
      }
    });
    await until("the draft is stored", async () => (await stored()).length > 0);
    expect(await stored()).toEqual(["x".repeat(50)]);
    await editor.fill("last");
    await page.reload();
    expect(await editor.inputValue()).toBe("last");
  });

  it("keeps no draft of a user who signs out", async () => {
    await go("/submit");
    await page.getByLabel("Documents").fill("secret");
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByLabel("Token").waitFor();
    expect(await page.evaluate(() => JSON.stringify(sessionStorage))).not.toContain("secret");
  });

  it.each([
    ["o", "Overview"],
    ["w", "Work"],
    ["q", "Queues"],
    ["n", "Nodes"],
    ["s", "Submit"],
  ])("opens a page by g and a letter: %s for %s", async (letter, heading) => {
    await go("/nowhere");
    await page.getByRole("heading", { name: "No such page" }).waitFor();
    await page.keyboard.press("g");
    await page.keyboard.press(letter);
    await page.getByRole("heading", { name: heading, level: 1 }).waitFor();
  });

  it("is dark or light as the system is", async () => {
    const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    expect(await ground()).toBe("rgb(255, 255, 255)");
    await page.emulateMedia({ colorScheme: "dark" });
    expect(await ground()).toBe("rgb(20, 23, 28)");
  });
});
