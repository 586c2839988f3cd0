import { findChromium, selectSize } from "@muster/testkit";
import { chromium, type Page } from "playwright-core";
import { startConsoleWorld } from "../test/console-world.ts";
import { sampleAnswers } from "../test/sample-world.ts";

const SIZE = { ...selectSize({ machines: 5000, work: 10_000 }, { machines: 100, work: 200 }), long: false };
const ROUNDS = selectSize(10, 1);
const PAGE = 500;
const LOAD = { timeout: 300_000 };

/** Prints the time from each input to the next frame, as the browser's Event Timing measures it, and the long tasks meanwhile. */
export async function measureInteractions(): Promise<void> {
  const executablePath = findChromium();
  if (executablePath === undefined) throw new Error("no Chromium is on the PATH");
  const answers = sampleAnswers(SIZE, Date.now());
  const { sessions } = answers["listSessions"]?.() as { readonly sessions: readonly object[] };
  await using world = await startConsoleWorld({
    ...answers,
    listSessions: ({ continue: from }) => {
      const start = Number(from);
      const end = start + PAGE;
      return { sessions: sessions.slice(start, end), continue: end < sessions.length ? String(end) : "" };
    },
  });
  await using stack = new AsyncDisposableStack();
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  stack.defer(() => browser.close());
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  await page.goto(`${world.url}/#token=${world.token}`);
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  await page
    .getByText(/held by|free/)
    .first()
    .waitFor(LOAD);
  await page.getByRole("link", { name: "Work", exact: true }).click();
  await page.getByText(`${SIZE.work + 4} of ${SIZE.work + 4}`).waitFor(LOAD);
  process.stdout.write(`${SIZE.machines} machines, ${SIZE.work} sessions; times in ms\n`);
  const devtools = await page.context().newCDPSession(page);
  // Measures the processor time of the page's main thread, without other processes.
  await devtools.send("Performance.enable", { timeDomain: "threadTicks" });
  const processorMs = async (): Promise<number> => {
    const { metrics } = await devtools.send("Performance.getMetrics");
    return (metrics.find(({ name }) => name === "TaskDuration")?.value ?? NaN) * 1000;
  };
  for (const [name, act] of Object.entries(INTERACTIONS)) {
    const before = await processorMs();
    await measure(page, name, act);
    process.stdout.write(
      `  processor time of each round: ${(((await processorMs()) - before) / ROUNDS).toFixed(0)} ms\n`,
    );
  }
}

/** Each interaction is repeated, and ends in its initial state. */
const INTERACTIONS: Readonly<Record<string, (page: Page) => Promise<void>>> = {
  "type in the search": async (page) => {
    const search = page.getByRole("searchbox");
    await search.focus();
    for (const letter of "bench-99") await page.keyboard.press(letter);
    await page.getByText(new RegExp(`^\\d+ of ${SIZE.work + 4}$`)).waitFor();
    for (let count = 0; count < 8; count += 1) await page.keyboard.press("Backspace");
  },
  "sort by name": (page) => page.getByRole("button", { name: "Name" }).click(),
  "filter by stage": async (page) => {
    await page.getByLabel("Stage").selectOption("failed");
    await page.getByLabel("Stage").selectOption("");
  },
  "scroll the list": async (page) => {
    const rows = page.getByLabel("Rows of Work");
    await rows.focus();
    for (const key of ["PageDown", "PageDown", "End", "Home"]) await page.keyboard.press(key);
  },
  "open Overview and Work": async (page) => {
    await page.getByRole("link", { name: "Overview" }).click();
    await page.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
    await page.getByRole("link", { name: "Work", exact: true }).click();
    await page.getByRole("heading", { name: "Work", level: 1 }).waitFor();
  },
};

type Seen = { readonly inputs: number[]; readonly tasks: number[] };

async function measure(page: Page, name: string, act: (page: Page) => Promise<void>): Promise<void> {
  await page.evaluate(observe);
  for (let round = 0; round < ROUNDS; round += 1) await act(page);
  const { inputs, tasks } = await page.evaluate(takeSeen);
  const sorted = inputs.toSorted((one, other) => one - other);
  const at = (part: number): string =>
    (sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0).toFixed(0);
  const longest = Math.max(0, ...tasks).toFixed(0);
  process.stdout.write(
    `${name}: ${sorted.length} inputs, p50 ${at(0.5)}, p99 ${at(0.99)}, most ${at(1)}; ${tasks.length} long tasks, longest ${longest}\n`,
  );
}

/** Runs in the page and collects entries from now on. Browsers do not report an input below the threshold of 16 ms, which then counts as less. */
function observe(): void {
  const seen: Seen = { inputs: [], tasks: [] };
  const watch = (type: string, into: number[], options: object): void => {
    const observer = new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) {
        const { interactionId = 1 } = entry as PerformanceEntry & { readonly interactionId?: number };
        if (interactionId > 0) into.push(entry.duration);
      }
    });
    observer.observe({ type, ...options });
  };
  watch("event", seen.inputs, { durationThreshold: 16 });
  watch("longtask", seen.tasks, {});
  Object.assign(window, { seen });
}

/** Runs in the page after two frames, because entries arrive after the frame is shown. */
async function takeSeen(): Promise<Seen> {
  for (let frame = 0; frame < 3; frame += 1) await new Promise((resolve) => requestAnimationFrame(resolve));
  await new Promise((resolve) => requestIdleCallback(resolve));
  return (window as unknown as { readonly seen: Seen }).seen;
}
