import { throwFault } from "@muster/faults";
import { until } from "@muster/testkit";
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import {
  browserMissing,
  findViolations,
  launchBrowser,
  NARROW,
  openConsole,
  WIDE,
  type OpenedConsole,
} from "./console-browser.ts";
import { startConsoleWorld, type ConsoleWorld } from "./console-world.ts";
import { MARKUP, markTexts } from "./mark-texts.ts";
import { lengthen, sampleAnswers } from "./sample-world.ts";

const SAMPLE = { machines: 48, work: 12, long: true };
const SESSION = `/workloads/session/${lengthen("bench-0")}`;
const OVER = `/workloads/session/${lengthen("bench-1")}`;
const JOB = `/workloads/job/default/${lengthen("train")}`;
const SET = `/workloads/replica-set/${lengthen("web")}`;
const LEASE = "/workloads/lease/3-1";

/** A page, and what the test does on it before axe runs. */
type Situation = { readonly path: string; readonly act?: (page: Page) => Promise<unknown> };

const shows = (text: string | RegExp) => (page: Page) => page.getByText(text).first().waitFor();
const tab = (path: string, name: string, text: string | RegExp): Situation => ({
  path: `${path}?tab=${name}`,
  act: shows(text),
});
const asks = (path: string, button: string | RegExp): Situation => ({
  path,
  act: async (page) => {
    await page.getByRole("button", { name: button }).first().click();
    await page.getByRole("dialog").waitFor();
  },
});
const writes = (text: string, shown: string | RegExp): Situation => ({
  path: "/submit",
  act: async (page) => {
    await page.getByLabel("Documents").fill(text);
    await shows(shown)(page);
  },
});
const sessionText = (field: string): string =>
  `apiVersion: muster.dev/v1\nkind: Session\nmetadata: { name: echo-${"long-name-".repeat(4)}x }\nspec:\n  components:\n    - { name: driver, kind: driver, ${field}: ${lengthen("drivers")}, image: a }\n`;

const PAGES: Readonly<Record<string, Situation>> = {
  overview: { path: "/", act: shows("free") },
  "machines by name": {
    path: "/",
    act: async (page) => {
      await page.getByText("Machines by name").first().click();
      await page.getByRole("row", { name: /gpu-node-1/ }).waitFor();
    },
  },
  work: { path: "/workloads", act: shows("16 of 16") },
  "status of a session": tab(SESSION, "status", "Phases"),
  "logs of a session": tab(SESSION, "logs", "step 299"),
  "events of a session": tab(SESSION, "events", "Events, newest first"),
  "explanation of a session": tab(SESSION, "explanation", "RUNNING"),
  "document of a session": tab(SESSION, "document", /traceparent/),
  "status of a job": tab(JOB, "status", "Members"),
  "logs of a job": tab(JOB, "logs", "step 299"),
  "events of a job": tab(JOB, "events", "Events, newest first"),
  "explanation of a job": tab(JOB, "explanation", "Pools"),
  "document of a job": tab(JOB, "document", "kind: Job"),
  "status of a replica set": tab(SET, "status", "Replicas"),
  "events of a replica set": tab(SET, "events", "SCALED"),
  "explanation of a replica set": tab(SET, "explanation", "Pools"),
  "document of a replica set": tab(SET, "document", /replicasDesired/),
  "status of a lease": tab(LEASE, "status", "Phases"),
  "events of a lease": tab(LEASE, "events", "ORDERED"),
  "explanation of a lease": tab(LEASE, "explanation", "Pools"),
  "document of a lease": tab(LEASE, "document", /engine/),
  queues: {
    path: "/queues",
    act: async (page) => {
      await page
        .getByRole("button", { name: /^When does job/ })
        .first()
        .click();
      await page.getByText("Goes first", { exact: true }).waitFor();
    },
  },
  nodes: { path: "/nodes", act: shows("4 of 4") },
  submit: { path: "/submit" },
  "findings in a document": writes(sessionText("pol"), /is an unknown field/),
  "plan of a document": writes(sessionText("pool"), "it would wait"),
  "a page that does not exist": { path: "/nowhere" },
};

/** Pages that show no text of a user besides names in their address. */
const WITHOUT_TEXTS = ["status of a lease", "a page that does not exist"];

const DIALOGS: Readonly<Record<string, Situation>> = {
  "keyboard help": asks("/", "Keyboard help"),
  "cancel a session": asks(SESSION, "Cancel…"),
  "delete a session": asks(OVER, "Delete…"),
  "suspend a job": asks(JOB, "Suspend…"),
  "scale a replica set": asks(SET, "Scale…"),
  "disable a replica set": asks(SET, "Disable…"),
  "terminate a node": asks("/nodes", /^Terminate/),
  "a refused change": {
    path: SESSION,
    act: async (page) => {
      await page.getByRole("button", { name: "Cancel…" }).click();
      await page.getByRole("button", { name: "Cancel it" }).click();
      await page.getByRole("alert").getByText("INTERNAL").waitFor();
    },
  },
};

const LISTS = ["/", "/workloads", "/queues", "/nodes"];
/** What a page states about empty lists, and only once it has read them. */
const EMPTY: Readonly<Record<string, string>> = {
  "/": "Nothing waits.",
  "/workloads": "There is no work yet.",
  "/queues": "There are no queues",
  "/nodes": "The scaler has made no nodes.",
};

describe.skipIf(browserMissing)(`each page of the console${browserMissing ? ` (${browserMissing})` : ""}`, () => {
  let browser: Browser;
  let world: ConsoleWorld;
  let opened: OpenedConsole;
  let page: Page;

  beforeAll(async () => {
    world = await startConsoleWorld({});
    browser = await launchBrowser();
    restore();
    opened = await openConsole(browser, world);
    ({ page } = opened);
  });

  afterAll(async () => {
    await browser.close();
    await world[Symbol.asyncDispose]();
  });

  beforeEach(async () => {
    restore();
    await page.setViewportSize(WIDE);
    await page.emulateMedia({ colorScheme: "light" });
  });

  afterEach(async () => {
    await page.unrouteAll({ behavior: "ignoreErrors" });
    // A draft of one test is not shown in the next one.
    await page.goto(`${world.url}/nowhere`);
    await page.evaluate(() => sessionStorage.clear());
    expect(opened.wrong).toEqual([]);
  });

  function restore(): void {
    const answers = sampleAnswers(SAMPLE, Date.now());
    const { sessions } = answers["listSessions"]?.() as { readonly sessions: readonly { readonly name: string }[] };
    Object.assign(world.answers, answers, {
      getSession: ({ name }: Record<string, unknown>) => ({ session: sessions.find((each) => each.name === name) }),
    });
  }

  async function open({ path, act }: Situation): Promise<void> {
    await page.goto(`${world.url}${path}`);
    await page.getByRole("heading", { level: 1 }).waitFor();
    await act?.(page);
  }

  const loaded = () => until("the page has loaded", async () => (await page.getByText(/^Loading/).count()) === 0);

  /** Checks the page in all views. Colors are all that the second scheme changes. */
  async function checkViews(): Promise<void> {
    for (const [width, viewport] of Object.entries({ wide: WIDE, narrow: NARROW })) {
      await page.setViewportSize(viewport);
      for (const [colorScheme, rules] of [
        ["light", "all"],
        ["dark", "colors"],
      ] as const) {
        await page.emulateMedia({ colorScheme });
        expect(await findViolations(page, rules), `${width} and ${colorScheme}`).toEqual([]);
      }
      expect(await findOverflow(page, width === "narrow"), width).toEqual([]);
    }
  }

  it.each(Object.entries(PAGES))("is accessible and does not scroll sideways: %s", async (_, situation) => {
    await open(situation);
    await loaded();
    await checkViews();
  });

  it.each([
    ...Object.entries(PAGES).filter(([title, { path }]) => !WITHOUT_TEXTS.includes(title) && path !== "/submit"),
    ["names of queues", { path: "/queues", act: shows("company") }] as const,
    ["result of a session", tab(OVER, "status", "Result")] as const,
    ["findings in a document", writes(sessionText(`'${MARKUP}'`), /is an unknown field/)] as const,
  ])("renders markup in every field that a user can name as text: %s", async (title, situation) => {
    const result = JSON.stringify({ [MARKUP]: MARKUP });
    const { getSession } = world.answers;
    world.answers["getSession"] = async (request) => {
      const { session } = (await getSession?.(request)) as { readonly session: object };
      return { session: { ...session, resultJson: result } };
    };
    // A page finds one piece of work by its name, which the gateway refuses with markup.
    const keepsAddresses = situation.path.startsWith("/workloads/") || title === "queues";
    for (const [method, answer] of Object.entries(world.answers))
      world.answers[method] = async (request) => markTexts(await answer(request), keepsAddresses) as object;
    await open(situation);
    await loaded();
    expect(await page.locator("body").innerText()).toContain("onerror");
    expect(await page.locator("img[src=x], script:not([src])").count()).toBe(0);
    expect(await page.evaluate(() => "pwned" in window)).toBe(false);
  });

  it.each(Object.entries(DIALOGS))("is accessible in a dialog, and so is the dialog: %s", async (_, situation) => {
    await open(situation);
    await loaded();
    await checkViews();
  });

  it("is accessible in the dialog that resumes a job", async () => {
    const { job } = world.answers["getJob"]?.({}) as { readonly job: object };
    world.answers["getJob"] = () => ({ job: { ...job, state: "SUSPENDED" } });
    await open(asks(JOB, "Resume…"));
    await checkViews();
  });

  it("is accessible after work is submitted", async () => {
    world.answers["submitSession"] = () => ({ session: {} });
    await open(writes(sessionText("pool"), "it would wait"));
    await page.getByRole("button", { name: "Submit it" }).click();
    await page.getByRole("link", { name: /^session echo/ }).waitFor();
    await checkViews();
  });

  it.each(LISTS)("is accessible with empty lists: %s", async (path) => {
    const lists = Object.keys(world.answers).filter((method) => method.startsWith("list"));
    for (const method of lists) world.answers[method] = () => ({});
    await open({ path, act: shows(EMPTY[path] ?? "") });
    await loaded();
    await checkViews();
  });

  it.each(LISTS)("is accessible while lists load: %s", async (path) => {
    await page.route(/\/v1\//, () => undefined);
    await open({ path, act: shows(/^Loading/) });
    expect(await page.getByText(EMPTY[path] ?? "").count()).toBe(0);
    await checkViews();
  });

  it.each(LISTS)("is accessible while lists cannot be read: %s", async (path) => {
    const body = JSON.stringify({ status: 503, code: "UNAVAILABLE", detail: "NATS is unavailable" });
    await page.route(/\/v1\//, (route) =>
      route.fulfill({ status: 503, contentType: "application/problem+json", body }),
    );
    await open({ path, act: shows("NATS is unavailable") });
    expect(await page.getByText(EMPTY[path] ?? "").count()).toBe(0);
    await checkViews();
  });

  it("is accessible for work that does not exist", async () => {
    world.answers["getSession"] = () => throwFault({ code: "not_found", kind: "session", id: "bench-0" });
    await open({ path: SESSION, act: (shown) => shown.locator(".notice.bad").waitFor() });
    await checkViews();
  });

  it("is accessible where users sign in, and where a link would replace the session", async () => {
    await page.goto(`${world.url}/nodes#token=${world.token}`);
    await page.getByText("the link has a token").waitFor();
    await checkViews();
    await page.getByRole("button", { name: "Stay signed in" }).click();
    const other = await browser.newPage({ viewport: WIDE });
    await other.goto(world.url);
    await other.getByLabel("Token").fill("wrong");
    await other.getByRole("button", { name: "Sign in" }).click();
    await other.getByRole("alert").waitFor();
    page = other;
    try {
      await checkViews();
    } finally {
      ({ page } = opened);
      await other.close();
    }
  });
});

/** Returns what is wider than its place: the page and its dialogs, and on a narrow page its tables and lists, too. */
async function findOverflow(page: Page, isNarrow: boolean): Promise<readonly string[]> {
  const selector = isNarrow ? "html, dialog[open], .wide-box, .scroller, .timeline, .card" : "html, dialog[open]";
  return page.locator(selector).evaluateAll((elements) =>
    elements
      .filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth)
      .map((element) => {
        const { tagName, classList, scrollWidth, clientWidth } = element;
        return `${tagName} ${classList.value}: ${scrollWidth} in ${clientWidth}`;
      }),
  );
}
