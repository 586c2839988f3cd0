import { FaultError, throwFault } from "@muster/faults";
import { RESOURCES, buildRoutes } from "@muster/gateway-api";
import { until } from "@muster/testkit";
import { expect, it } from "vitest";
import type { Call } from "../api/answer-request.ts";
import { openWatchFeeds, type WatchFeeds } from "./watch-feeds.ts";

const JOBS = buildRoutes(RESOURCES).find(({ path, http }) => path === "/v1/jobs/:namespace" && http === "GET")!;
const QUERY = { watch: "true" };

function openFeeds(call: Call = () => Promise.resolve({ jobs: [] }), maxBytes = 1_000_000) {
  const logged: string[] = [];
  const log = (_fields: object, message: string): void => void logged.push(message);
  const logger = { error: log, warn: log };
  const connection = new AbortController();
  const feeds = openWatchFeeds({ call, pollMs: 10, maxBytes, lost: () => connection.signal, logger });
  return { feeds, logged };
}

/** Answers with a job in each page, whose JSON has more bytes than characters. */
function pagesOf(count: number): { readonly call: Call; readonly pages: () => number } {
  let pages = 0;
  const call: Call = (_route, { continue: from }) => {
    pages += 1;
    const page = Number(from) + 1;
    const key = { kind: "Job", namespace: "a", name: `job-${page}` };
    return Promise.resolve({
      jobs: [{ key, waitingBecause: "\u00e9".repeat(500) }],
      continue: page < count ? String(page) : "",
    });
  };
  return { call, pages: () => pages };
}

function followAll(feeds: WatchFeeds, user: string, count: number): void {
  for (let number = 0; number < count; number += 1)
    feeds.follow(JOBS, { params: { namespace: `${user}-${number}` }, query: QUERY }, user);
}

it("keeps capacity for others beside a user who watches as many lists as possible", async () => {
  const { feeds } = openFeeds();
  await using _feeds = feeds;
  followAll(feeds, "ada", 16);
  const more = { params: { namespace: "more" }, query: QUERY };
  expect(() => feeds.follow(JOBS, more, "ada")).toThrow(FaultError);
  // A further stream of a list that the user already watches costs nothing.
  followAll(feeds, "ada", 1);
  const { [Symbol.dispose]: leave } = feeds.follow(JOBS, more, "bob");
  expect(() => feeds.follow(JOBS, more, "ada")).toThrow(/16/);
  leave();
});

it("frees the capacity of a list that its user no longer watches", async () => {
  const { feeds } = openFeeds();
  await using _feeds = feeds;
  followAll(feeds, "ada", 15);
  const more = { params: { namespace: "more" }, query: QUERY };
  for (let round = 0; round < 3; round += 1) {
    using _followed = feeds.follow(JOBS, more, "ada");
    using _again = feeds.follow(JOBS, more, "ada");
  }
  expect(() => feeds.follow(JOBS, { params: { namespace: "another" }, query: QUERY }, "ada")).not.toThrow();
});

it.each<[string, Call, string]>([
  ["a defect stops", () => Promise.reject(new TypeError("a defect")), "INTERNAL"],
  ["no later request can read", () => throwFault({ code: "not_found", kind: "namespace", id: "a" }), "NOT_FOUND"],
])("ends a feed that %s, notifies its readers, and starts a new one for the next", async (_, fail, code) => {
  let reads = 0;
  const { feeds } = openFeeds(async (...asked) => ((reads += 1) > 2 ? fail(...asked) : { jobs: [] }));
  await using _feeds = feeds;
  const asked = { params: { namespace: "a" }, query: QUERY };
  using followed = feeds.follow(JOBS, asked, "ada");
  let notified = 0;
  using _listening = followed.feed.onChange(() => (notified += 1));
  await until("the feed has ended", () => followed.feed.end !== undefined);
  expect(followed.feed.end).toMatchObject({ code });
  await until("its readers are notified", () => notified > 1);
  const readsAtEnd = reads;
  using next = feeds.follow(JOBS, asked, "ada");
  expect(next.feed.id).not.toBe(followed.feed.id);
  await until("the other feed has ended too", () => next.feed.end !== undefined);
  expect(reads).toBe(readsAtEnd + 1);
});

it("keeps a feed whose service is unavailable", async () => {
  let isAway = false;
  const away: Call = () => throwFault({ code: "unavailable", dependency: "jobs", retryAfterMs: 1 });
  const { feeds } = openFeeds(async (...asked) => (isAway ? away(...asked) : { jobs: [] }));
  await using _feeds = feeds;
  using followed = feeds.follow(JOBS, { params: { namespace: "a" }, query: QUERY }, "ada");
  await until("the list is read", () => followed.feed.isRead);
  isAway = true;
  await until("the list is stale", () => followed.feed.trouble !== undefined);
  isAway = false;
  await until("the list is current", () => followed.feed.trouble === undefined);
  expect(followed.feed.end).toBeUndefined();
});

const listOf = (namespace: string) => ({ params: { namespace }, query: QUERY });

/** Returns the bytes of one list. */
async function sizeOf(call: Call): Promise<number> {
  const { feeds } = openFeeds(call);
  await using _feeds = feeds;
  using followed = feeds.follow(JOBS, listOf("a"), "ada");
  await until("the list is read", () => followed.feed.isRead);
  return feeds.bytes;
}

it("ends a list over the share of its user, refuses the user further lists, and keeps the lists of others", async () => {
  const { call } = pagesOf(10);
  const size = await sizeOf(call);
  expect(size).toBeGreaterThan(10 * 1000);
  const { feeds, logged } = openFeeds(call, size * 4);
  await using _feeds = feeds;
  const first = ["a", "b"].map((name) => feeds.follow(JOBS, listOf(name), "ada"));
  await until("both lists are read", () => first.every(({ feed }) => feed.isRead));
  expect([feeds.count, feeds.bytes]).toEqual([2, size * 2]);
  using third = feeds.follow(JOBS, listOf("c"), "ada");
  await until("the third list has ended", () => third.feed.end !== undefined);
  expect(third.feed.end).toMatchObject({ status: 429, code: "LIMIT_EXCEEDED", retryAfterMs: 10_000 });
  expect(third.feed.end?.detail).toContain(String(Math.floor((size * 4 * 2) / 3)));
  expect(logged).toContain("a list to watch exceeds the limit of bytes");
  expect(() => feeds.follow(JOBS, listOf("d"), "ada")).toThrow(/bytes of lists that you watch/);
  using other = feeds.follow(JOBS, listOf("d"), "bob");
  await until("the list of another user is read", () => other.feed.isRead);
  expect(first.map(({ feed }) => feed.end)).toEqual([undefined, undefined]);
  // A further stream of a followed list costs no bytes.
  using again = feeds.follow(JOBS, listOf("a"), "ada");
  expect(again.feed.isRead).toBe(true);
});

it("stops reading a list at the limit of bytes, before its last page", async () => {
  const { call, pages } = pagesOf(90);
  const { feeds } = openFeeds(call, 20_000);
  await using _feeds = feeds;
  using followed = feeds.follow(JOBS, listOf("a"), "ada");
  await until("the list has ended", () => followed.feed.end !== undefined);
  expect(pages()).toBeLessThan(20);
  await until("its bytes are free", () => feeds.bytes === 0);
});

it("drops lists without readers before it refuses one for the bytes of all", async () => {
  const { call } = pagesOf(10);
  const size = await sizeOf(call);
  const { feeds } = openFeeds(call, size * 4);
  await using _feeds = feeds;
  for (const name of ["a", "b", "c", "d", "e", "f"]) {
    using followed = feeds.follow(JOBS, listOf(name), name);
    await until("the list is read", () => followed.feed.isRead);
  }
  expect(feeds.bytes).toBe(size * 4);
  const held = ["g", "h", "i", "j"].map((name) => feeds.follow(JOBS, listOf(name), name));
  await until("they are read", () => held.every(({ feed }) => feed.isRead));
  using more = feeds.follow(JOBS, listOf("k"), "k");
  await until("the list has ended", () => more.feed.end !== undefined);
  expect(() => feeds.follow(JOBS, listOf("l"), "l")).toThrow(/bytes of lists that are watched/);
});
