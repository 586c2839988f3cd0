import { throwFault } from "@muster/faults";
import { until } from "@muster/testkit";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { browserMissing, launchBrowser, openConsole } from "./console-browser.ts";
import { startConsoleWorld, type ConsoleWorld } from "./console-world.ts";
import { sampleAnswers } from "./sample-world.ts";

const SAMPLE = { machines: 48, work: 12, long: false };

describe.skipIf(browserMissing)(`the console in a browser${browserMissing ? ` (${browserMissing})` : ""}`, () => {
  let browser: Browser;
  let world: ConsoleWorld;
  let context: BrowserContext;
  let page: Page;
  let wrong: readonly string[];

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
    ({ context, page, wrong } = await openConsole(browser, world));
  });

  afterEach(async () => {
    await context.close();
    expect(wrong).toEqual([]);
  });

  const go = (path: string) => page.goto(`${world.url}${path}`);
  const session = (fields: object) => {
    const [first] = (sampleAnswers(SAMPLE, Date.now())["listSessions"]?.() as { readonly sessions: readonly object[] })
      .sessions;
    return { ...first, ...fields };
  };
  const show = (...sessions: readonly object[]): void => {
    world.answers["listSessions"] = ({ continue: from }) => {
      const start = Number(from);
      const end = start + 500;
      return { sessions: sessions.slice(start, end), continue: end < sessions.length ? String(end) : "" };
    };
  };

  it("signs in by the link, whose token is removed from the address", async () => {
    expect(page.url()).toBe(`${world.url}/`);
    await page.getByText("33 of 46 held, 13 free").waitFor();
  });

  it("signs in by a link that is pasted into the page with the form", async () => {
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByLabel("Token").waitFor();
    await page.goto(`${world.url}/#token=${world.token}`);
    await page.getByRole("heading", { name: "Overview" }).waitFor();
  });

  it("asks before a link replaces the session", async () => {
    await page.goto(`${world.url}/nodes#token=${world.token}`);
    await page.getByText("the link has a token").waitFor();
    await page.getByRole("button", { name: "Stay signed in" }).click();
    await page.getByRole("heading", { name: "Nodes" }).waitFor();
  });

  it("signs in with a pasted token, shows why an invalid one is refused, and signs out", async () => {
    await page.getByRole("button", { name: "Sign out" }).click();
    const token = page.getByLabel("Token");
    await token.fill("wrong");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("alert").getByText("the token is unknown or expired").waitFor();
    await token.fill(world.token);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("heading", { name: "Overview" }).waitFor();
  });

  it("signs in by OIDC where the gateway has an issuer, and names its page as the return path", async () => {
    await context.clearCookies();
    const methods = { token: true, oidc: true };
    await page.route("**/auth/methods", (route) => route.fulfill({ json: methods }));
    await page.route("**/auth/oidc/start?*", (route) =>
      route.fulfill({ contentType: "text/html", body: "the issuer" }),
    );
    await go("/workloads?kind=job");
    await page.getByRole("link", { name: "Sign in with your account" }).click();
    await page.getByText("the issuer").waitFor();
    const { pathname, searchParams } = new URL(page.url());
    expect([pathname, searchParams.get("return")]).toEqual(["/auth/oidc/start", "/workloads?kind=job"]);
  });

  it("requests a new sign-in when the session is over, and then continues on the same page", async () => {
    await go("/workloads?kind=job");
    await page.getByRole("link", { name: "train" }).waitFor();
    await context.clearCookies();
    // Simulates a user who signs out on another page, and returns to this one.
    await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
    const token = page.getByLabel("Token");
    await token.fill(world.token);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("link", { name: "train" }).waitFor();
    expect(page.url()).toBe(`${world.url}/workloads?kind=job`);
    await until("the form is gone", async () => (await token.count()) === 0);
  });

  it("names the machines of a pool, with their states", async () => {
    const machine = { pool: "gpu", standing: "NOT_READY", sharedHolders: [] };
    world.answers["listMachines"] = () => ({ machines: [{ ...machine, node: "gpu-7" }], complete: true });
    await page.getByText("Machines by name").first().click();
    await page.getByRole("row", { name: "gpu-7 NOT_READY" }).waitFor();
  });

  it("shows changes without a reload", async () => {
    show(session({ name: "first", revision: 1 }));
    await go("/workloads?kind=session");
    await page.getByRole("link", { name: "first" }).waitFor();
    show(session({ name: "first", revision: 2, events: [{ kind: 5, atMs: 1 }] }), session({ name: "second" }));
    await page.getByRole("link", { name: "second" }).waitFor();
    await page.getByRole("row", { name: /first.*DONE/ }).waitFor();
    show(session({ name: "second" }));
    await until(
      "the first session is gone",
      async () => (await page.getByRole("link", { name: "first" }).count()) === 0,
    );
  });

  it("follows the jobs of the namespace of work for a user who may not list those of all namespaces", async () => {
    const problem = { status: 403, code: "FORBIDDEN", detail: "no right" };
    await page.route(/resource=jobs(&|$)/, (route) =>
      route.fulfill({
        contentType: "text/event-stream",
        body: `event: closed\ndata: ${JSON.stringify({ resource: "jobs", problem })}\n\n`,
      }),
    );
    await go("/workloads?kind=job");
    await page.getByRole("link", { name: "train" }).waitFor();
  });

  it("follows all lists of all pages over one connection", async () => {
    const open = new Set<string>();
    const asked: string[] = [];
    let maxOpen = 0;
    const [other, lists] = [
      await context.newPage(),
      /\/v1\/(watch|sessions|jobs|replica-sets|leases|pools|nodes|reservations|queues)\?/,
    ];
    other.on("request", (request) => {
      if (!lists.test(request.url())) return;
      asked.push(request.url());
      open.add(request.url());
      maxOpen = Math.max(maxOpen, open.size);
    });
    other.on("requestfailed", (request) => open.delete(request.url()));
    other.on("requestfinished", (request) => open.delete(request.url()));
    await other.goto(world.url);
    await other.getByText("33 of 46 held, 13 free").waitFor();
    for (const name of ["Work", "Queues", "Nodes", "Overview"]) {
      await other.getByRole("link", { name, exact: true }).click();
      await other.getByRole("heading", { name, level: 1 }).waitFor();
    }
    const watched = new URL(asked[0] ?? "").searchParams.getAll("resource").toSorted();
    expect(watched).toEqual(["jobs", "leases", "nodes", "pools", "queues", "replica-sets", "reservations", "sessions"]);
    expect([asked.length, maxOpen]).toEqual([1, 1]);
    await other.close();
  });

  it("keeps filter, search and order after a reload", async () => {
    await go("/workloads");
    await page.getByLabel("Kind").selectOption("session");
    await page.getByLabel("Stage").selectOption("failed");
    await page.getByRole("searchbox").fill("bench");
    await page.getByRole("button", { name: "Name" }).click();
    await page.getByRole("button", { name: "Name" }).click();
    const names = () => page.getByRole("row").getByRole("link").allInnerTexts();
    await until("the list is sorted", async () => (await names()).join(" ") === "bench-10 bench-3");
    await page.reload();
    await until("the list is sorted in the same order", async () => (await names()).join(" ") === "bench-10 bench-3");
    expect(await page.getByRole("searchbox").inputValue()).toBe("bench");
  });

  it("reports that NATS is unavailable for a minute, and recovers without a reload", async () => {
    await page.clock.install();
    await go("/workloads");
    await page.evaluate(() => Object.assign(window, { isFirstPage: true }));
    const row = page.getByRole("link", { name: "bench-0" });
    await row.waitFor();
    await page.getByText("Loading").waitFor({ state: "detached" });
    const place = await row.boundingBox();
    await world.nats.kill();
    await page.getByText("Stale:").waitFor({ timeout: 60_000 });
    // The row must not move, because a click on a moving row is lost.
    expect(await row.boundingBox()).toEqual(place);
    expect(await page.getByRole("link", { name: "bench-0" }).count()).toBe(1);
    // After half a minute of the page's clock without a byte, the page opens another connection.
    const opened: string[] = [];
    page.on("request", (request) => void opened.push(new URL(request.url()).pathname));
    for (let second = 0; second < 60; second += 5) {
      await page.clock.runFor(5000);
      await page.getByText("Stale:").waitFor();
    }
    expect(opened).toContain("/v1/watch");
    expect(await page.getByRole("link", { name: "bench-0" }).count()).toBe(1);
    await world.nats.start();
    await page.getByText("Stale:").waitFor({ state: "detached", timeout: 60_000 });
    show(session({ name: "afterwards" }));
    await page.getByRole("link", { name: "afterwards" }).waitFor({ timeout: 60_000 });
    expect(await page.evaluate(() => "isFirstPage" in window)).toBe(true);
  });

  it("cancels after a confirmation, and not without", async () => {
    const cancelled = () => world.received.filter(({ method }) => method === "cancelSession").length;
    const before = cancelled();
    world.answers["cancelSession"] = () => ({ session: session({}) });
    await go("/workloads/session/bench-0");
    await page.getByRole("button", { name: "Cancel…" }).click();
    await page.getByRole("button", { name: "Keep" }).click();
    expect(cancelled()).toBe(before);
    await page.getByRole("button", { name: "Cancel…" }).click();
    await page.getByRole("button", { name: "Cancel it" }).click();
    await until("the service has the request", () => cancelled() === before + 1);
    await page.getByRole("dialog").waitFor({ state: "detached" });
  });

  it("suspends a job after a confirmation, and resumes a suspended one", async () => {
    const asked = () => world.received.findLast(({ method }) => method === "suspendJob")?.request;
    world.answers["suspendJob"] = () => ({ job: {} });
    await go("/workloads/job/default/train");
    await page.getByRole("button", { name: "Suspend…" }).click();
    await page.getByRole("button", { name: "Suspend it" }).click();
    await until("the service has the request", () => asked()?.["suspended"] === true);
    await page.getByRole("dialog").waitFor({ state: "detached" });
    const suspended = { state: "SUSPENDED", key: { kind: "Job", namespace: "default", name: "train" }, revision: "9" };
    world.answers["getJob"] = () => ({ job: suspended });
    world.answers["listJobs"] = () => ({ jobs: [suspended] });
    await page.reload();
    await page.getByRole("button", { name: "Resume…" }).click();
    await page.getByRole("button", { name: "Resume it" }).click();
    await until("the service has the request", () => asked()?.["suspended"] === false);
    Object.assign(world.answers, sampleAnswers(SAMPLE, Date.now()));
  });

  it("shows why a change is refused", async () => {
    world.answers["scaleReplicaSet"] = () => Promise.reject(new Error("not now"));
    await go("/workloads/replica-set/web");
    await page.getByRole("button", { name: "Scale…" }).click();
    await page.getByRole("spinbutton").fill("5");
    await page.getByRole("button", { name: "Scale it" }).click();
    await page.getByRole("alert").getByText("INTERNAL").waitFor();
    expect(world.received.findLast(({ method }) => method === "scaleReplicaSet")?.request).toMatchObject({
      replicasDesired: 5,
      expected: 3,
    });
  });

  it("shows for a waiting request the requests that are served first, the work that would be preempted, and its start", async () => {
    await go("/queues");
    await page.getByRole("button", { name: /^When does job\/train/ }).click();
    const answer = page.getByRole("region", { name: /^job\/train/ });
    await answer.getByText("unknown, because 1 request goes first.").waitFor();
    await answer.getByRole("row", { name: /session\/urgent research 5 .* its priority is higher/ }).waitFor();
    await answer.getByText("and 2 more").waitFor();
    await answer.getByText("Would have to leave for it: session/bench-2 (8 machines)").waitFor();
    await answer.getByText(/More work may be preempted in \dm/).waitFor();
    world.answers["explainReservation"] = () => ({
      code: "POOL_AVAILABILITY",
      message: "16 machines are needed",
      place: { ahead: 0 },
      pools: [
        {
          ...{ pool: "gpu", requested: 16, available: 3, capacity: 40 },
          holders: [{ owner: { kind: "session", id: "bench-0" }, machines: 37 }],
        },
      ],
    });
    show(session({ events: [{ kind: 3, atMs: Date.now() }], spec: { timeoutMs: 3_600_000 } }));
    await answer.getByText(/^Estimated start: by 20.* in 59m.*: session\/bench-0 ends by then/).waitFor();
  });

  it("finds a job by its id in the ledger", async () => {
    await go("/queues");
    await page.getByRole("link", { name: /^job\/train-/ }).click();
    await page.getByRole("link", { name: "train", exact: true }).click();
    await page.getByRole("heading", { name: "train", level: 1 }).waitFor();
  });

  it("shows the result of a session", async () => {
    const done = session({
      resultJson: '{"latencyMs":{"p99":2.5}}',
      warnings: [{ code: "LOGS_LOST", message: "gone" }],
    });
    world.answers["getSession"] = () => ({ session: done });
    await go("/workloads/session/bench-0");
    await page.getByRole("row", { name: "latencyMs.p99 2.5" }).waitFor();
    await page.getByText("LOGS_LOST gone").waitFor();
  });

  it("shows a log without terminal sequences, and finds text in it", async () => {
    await go("/workloads/session/bench-0?tab=logs");
    const log = page.getByRole("log");
    await log.getByText("step 299 loss 0.0100").waitFor();
    await page.getByLabel("Search in the log").fill("STEP 42 ");
    await log.getByText("step 42 loss 0.0698").waitFor();
    expect(await log.innerText()).not.toContain("\u001b");
    await page.getByText("1 line, complete").waitFor();
  });

  it("is usable with the keyboard alone", async () => {
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keyboard" }).waitFor();
    await page.keyboard.press("Escape");
    await page.keyboard.press("g");
    await page.keyboard.press("w");
    await page.getByRole("heading", { name: "Work", level: 1 }).waitFor();
    await page.keyboard.press("/");
    await page.keyboard.type("train");
    await page.getByText("1 of 16").waitFor();
    await page.keyboard.press("Escape");
    expect(await page.getByRole("searchbox").inputValue()).toBe("train");
    await page.getByRole("link", { name: "train" }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "train", level: 1 }).waitFor();
    // The next Tab continues within the page.
    await page.waitForFunction(() => document.activeElement?.id === "content");
    expect(await page.title()).toBe("train · Muster");
  });

  it("renders markup in names and messages as text", async () => {
    const markup = "<img src=x onerror='window.pwned=1'><script>window.pwned=1</script>";
    show(session({ name: "bad", events: [{ kind: 6, atMs: 5, description: markup, reason: markup }] }));
    world.answers["getSession"] = () => ({
      session: session({ name: "bad", events: [{ kind: 6, atMs: 5, description: markup, reason: markup }] }),
    });
    await page.getByText(markup).first().waitFor();
    for (const tab of ["status", "events", "document"]) {
      await go(`/workloads/session/bad?tab=${tab}`);
      await page.getByText("onerror").first().waitFor();
      expect(await page.evaluate(() => "pwned" in window)).toBe(false);
    }
  });

  it("checks documents during editing, shows the plan, and sends them", async () => {
    world.answers["submitSession"] = () => ({ session: session({ name: "echo" }) });
    world.answers["checkSession"] = () => throwFault({ code: "pool_unknown", pool: "drivers" });
    const text = (pool: string) =>
      `apiVersion: muster.dev/v1\nkind: Session\nmetadata: { name: echo }\nspec:\n  components:\n    - { name: driver, kind: driver, ${pool}: drivers, image: a }\n`;
    await go("/submit");
    await page.getByRole("button", { name: "replica set" }).click();
    await page.getByText("PinnedReplicaSet web fits its schema.").waitFor();
    await page.getByLabel("Documents").fill(text("pol"));
    await page.getByText("spec.components[0].pol is an unknown field").waitFor();
    expect(await page.getByRole("button", { name: "Submit it" }).count()).toBe(0);
    await page.getByLabel("Documents").fill(text("pool"));
    await page.reload();
    await page.getByText("POOL_UNKNOWN: pool drivers does not exist").waitFor();
    expect(await page.getByRole("button", { name: "Submit it" }).isDisabled()).toBe(true);
    const waits = { waitingCode: "POOL_AVAILABILITY", waitingBecause: "pool drivers has no machine free" };
    world.answers["checkSession"] = () => ({ session: session({ name: "echo", ...waits }) });
    await page.reload();
    await page.getByText("it would wait: POOL_AVAILABILITY: pool drivers has no machine free").waitFor();
    await page.getByRole("button", { name: "Submit it" }).click();
    await page.getByRole("link", { name: "session echo" }).waitFor();
    expect(world.received.findLast(({ method }) => method === "submitSession")?.request).toMatchObject({
      name: "echo",
      spec: { components: [{ name: "driver", pool: "drivers", kind: 1 }] },
    });
    await page.getByRole("button", { name: "Submit other work" }).click();
    await page.getByRole("button", { name: "replica set" }).waitFor();
  });

  it("sends a document again with its key, after another one was refused", async () => {
    const text = ["one", "two"]
      .map(
        (name) =>
          `apiVersion: muster.dev/v1\nkind: Session\nmetadata: { generateName: ${name}- }\nspec:\n  components:\n    - { name: driver, kind: driver, pool: drivers, image: a }\n`,
      )
      .join("---\n");
    const names: string[] = [];
    world.answers["submitSession"] = (request) => {
      const { name } = request as { readonly name: string };
      names.push(name);
      if (name.startsWith("two") && names.length === 2)
        throwFault({ code: "invalid_request", field: "name", reason: "is refused" });
      return { session: session({ name }) };
    };
    world.answers["checkSession"] = ({ name }) => ({ session: session({ name: String(name) }) });
    await go("/submit");
    await page.getByLabel("Documents").fill(text);
    await page.getByRole("button", { name: "Submit all 2" }).click();
    await page.getByText(/two-.*INVALID_REQUEST/).waitFor();
    await page.getByRole("button", { name: "Submit all 2" }).click();
    await page.getByRole("link", { name: /session two-/ }).waitFor();
    // The gateway answers the repetition of the accepted one itself.
    expect(names.map((name) => name.slice(0, 3))).toEqual(["one", "two", "two"]);
    expect(names[2]).toBe(names[1]);
  });

  it("renders only the rows in view", async () => {
    show(...Array.from({ length: 5000 }, (_, index) => session({ name: `many-${index}` })));
    await go("/workloads?kind=session&sort=name");
    await page.getByText("5000 of 5004").waitFor({ timeout: 60_000 });
    expect(await page.getByRole("row").count()).toBeLessThan(60);
    await page.getByRole("searchbox").fill("many-4999");
    await page.getByText("1 of 5004").waitFor();
  });
});
