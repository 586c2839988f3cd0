import { FaultError, throwFault } from "@muster/faults";
import { RESOURCES, routesOf } from "@muster/gateway-api";
import { until } from "@muster/testkit";
import { expect, it } from "vitest";
import type { Call } from "../api/answer-request.ts";
import { openWatchFeeds, type WatchFeeds } from "./watch-feeds.ts";

const JOBS = routesOf(RESOURCES).find(({ path, http }) => path === "/v1/jobs/:namespace" && http === "GET")!;
const QUERY = { watch: "true" };

function openFeeds(call: Call = () => Promise.resolve({ jobs: [] })) {
  const logged: string[] = [];
  const logger = { error: (_fields: object, message: string) => void logged.push(message) };
  return { feeds: openWatchFeeds({ call, pollMs: 10, lost: () => new AbortController().signal, logger }), logged };
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
