import { until } from "@muster/testkit";
import { expect, it } from "vitest";
import { openWatchFeed } from "../api/watch-feed.ts";
import { buildRefusal, type Problem } from "../domain/build-problem.ts";
import type { HttpStream } from "./http-stream.ts";
import { serveWatch } from "./serve-watch.ts";

it("checks all lists of a stream concurrently, so that slow reviews do not add up", async () => {
  const stop = new AbortController();
  const { feed } = openWatchFeed({
    ...{ maxChanges: 10, maxCharacters: 1000, signal: stop.signal },
    read: () => Promise.resolve(new Map()),
    pause: () => new Promise((resolve) => stop.signal.addEventListener("abort", resolve)),
  });
  let written = "";
  const stream: HttpStream = {
    closed: stop.signal,
    write: (piece) => {
      written += String(piece);
      return Promise.resolve();
    },
    end: (last = "") => void (written += last),
    break: () => stop.abort(),
  };
  // A review that takes longer than the interval is repeated.
  const asked = new Set<string>();
  const reviews = Promise.withResolvers<Problem>();
  const refusal = (name: string) => () => {
    asked.add(name);
    return reviews.promise;
  };
  const lists = ["jobs/a", "jobs/b", "jobs/c"].map((name) => ({ name, feed, refusal: refusal(name) }));
  const served = serveWatch(stream, lists, { lastEventId: undefined, recheckMs: 10, refused: [] });
  await until("each list is reviewed", () => asked.size === lists.length);
  reviews.resolve(buildRefusal("FORBIDDEN", "for a test"));
  await served;
  expect([[...asked], written.match(/event: closed/g)?.length]).toEqual([["jobs/a", "jobs/b", "jobs/c"], 3]);
  stop.abort();
});
