import { expect, it } from "vitest";
import { makeOrder } from "../../test/a-lease.ts";
import { type LeaseJob, type LeaseSource, pollSource, type PollAnswer } from "./poll-source.ts";

async function all(source: LeaseSource, signal = new AbortController().signal): Promise<LeaseJob[]> {
  const jobs: LeaseJob[] = [];
  for await (const job of source(signal)) jobs.push(job);
  return jobs;
}

/** A controller with these answers, and a clock that the pauses move. */
function polled(answers: readonly PollAnswer[], pollMs = 0) {
  const asked: bigint[] = [];
  const began: number[] = [];
  let nowMs = 0;
  const source = pollSource({
    name: "http",
    poll: (from) => {
      asked.push(from);
      began.push(nowMs);
      nowMs += pollMs;
      return Promise.resolve(answers[asked.length - 1] ?? END);
    },
    nowMs: () => nowMs,
    pause: (delayMs) => {
      nowMs += delayMs;
      return Promise.resolve();
    },
    everyMs: 10_000,
  });
  return { source, asked, began };
}
type Page = Extract<PollAnswer, { kind: "page" }>;
const page = (lastId: bigint, ...orders: readonly [id: string, type: string][]): Page => ({
  kind: "page",
  orders: orders.map(([id, type]) => ({ order: makeOrder({ id, type }), withdrawn: false, isAnswered: false })),
  unreadable: [],
  lastId,
  isLast: false,
});
const END: PollAnswer = { kind: "page", orders: [], unreadable: [], lastId: 0n, isLast: true };
const shown = (jobs: readonly LeaseJob[]): string[] =>
  jobs.map((job) => (job.kind === "order" ? job.order.id : job.kind));

it("polls from the beginning, yields dependencies first, and reports the end of the history once", async () => {
  const first = page(5n, ["4-1", "container"], ["5-1", "network"], ["5-2", "unheard"], ["5-3", "network"]);
  const { source, asked, began } = polled([first, page(5n), page(7n, ["7-1", "debug"]), page(7n)]);
  expect(shown(await all(source))).toEqual(["5-1", "5-3", "4-1", "5-2", "history-read", "7-1"]);
  expect(asked).toEqual([0n, 6n, 6n, 8n, 8n]);
  // More orders may follow new ones, so the next poll is immediate.
  expect(began).toEqual([0, 0, 10_000, 10_000, 20_000]);
});

it("polls the same page again after a failure", async () => {
  const { source, asked } = polled([page(5n), { kind: "failed" }, { kind: "unreadable", lastId: undefined }, page(6n)]);
  await all(source);
  expect(asked).toEqual([0n, 6n, 6n, 6n, 7n]);
});

it("polls immediately after a poll that took longer than the pause", async () => {
  const { source, began } = polled([page(1n), page(2n)], 15_000);
  await all(source);
  expect(began).toEqual([0, 15_000, 30_000]);
});

it("yields the orders of the last page, and then ends", async () => {
  const last: PollAnswer = {
    kind: "page",
    orders: [{ order: makeOrder({ id: "1-1" }), withdrawn: true, isAnswered: false }],
    unreadable: [],
    lastId: 0n,
    isLast: true,
  };
  expect(shown(await all(polled([last]).source))).toEqual(["1-1", "history-read"]);
});

it("reports the end of the history even if the last page has newer orders", async () => {
  const last: PollAnswer = { ...page(5n, ["5-1", "debug"]), isLast: true };
  expect(shown(await all(polled([last]).source))).toEqual(["5-1", "history-read"]);
});

it("yields nothing more of a page once it is stopped", async () => {
  const stop = new AbortController();
  const ids: string[] = [];
  for await (const job of polled([page(2n, ["1-1", "debug"], ["2-1", "debug"])]).source(stop.signal)) {
    ids.push(...shown([job]));
    stop.abort();
  }
  expect(ids).toEqual(["1-1"]);
});
