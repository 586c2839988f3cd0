import { JetStreamApiError } from "@nats-io/jetstream";
import type { NatsConnection } from "@nats-io/nats-core";
import { expect, it } from "vitest";
import { JETSTREAM } from "./jetstream-fault.ts";
import { watchBucket } from "./watch.ts";

const MISSING = new JetStreamApiError({ code: 404, err_code: JETSTREAM.streamNotFound, description: "not found" });
const REFUSED = new Error("no space for the bucket");

it.each([
  { title: "why a lost bucket cannot be recreated", ensure: () => Promise.reject(REFUSED), problem: REFUSED },
  { title: "the loss of a bucket that is recreated", ensure: () => Promise.resolve(), problem: MISSING },
])("reports $title", async ({ ensure, problem }) => {
  const connection = { isClosed: () => false, status: () => [] } as unknown as NatsConnection;
  const stop = new AbortController();
  const problems: unknown[] = [];
  const changes = watchBucket(connection, {
    name: "sets",
    stream: "KV_sets",
    prefix: "$KV.sets.",
    filter: ">",
    signal: stop.signal,
    onStatus: () => undefined,
    onProblem: (error) => {
      problems.push(error);
      stop.abort();
    },
    ensure,
    checkMs: 60_000,
    present: () => Promise.reject(MISSING),
    created: () => Promise.reject(MISSING),
    read: () => ({ key: "a", entry: undefined }),
  });
  await changes.next();
  expect(problems).toEqual([problem]);
});
