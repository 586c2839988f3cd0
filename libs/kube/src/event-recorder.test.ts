import { describe, expect, it } from "vitest";
import { waitUntilSettled, makeVirtualClock } from "@muster/testkit";
import type { EventTarget } from "./event-correlation.ts";
import { makeEventRecorder, type EventRecorderOptions } from "./event-recorder.ts";
import { KubeError } from "./kube-error.ts";

const target: EventTarget = { apiVersion: "v1", kind: "Pod", namespace: "ns", name: "p", uid: "1" };
const event = (message: string) => ({ type: "Normal" as const, reason: "Made", message });

/** Builds a recorder, and the events of an API server that fails as `trouble` states: never, before the effect, or after it. */
function recorded(more: Partial<EventRecorderOptions> = {}) {
  const clock = makeVirtualClock();
  const stored = new Map<string, { message: string; count: number }>();
  const reports: string[] = [];
  const world: { trouble?: () => Error; answersLost?: boolean } = {};
  const held = { until: Promise.resolve() };
  const away = () => Object.assign(new Error("refused"), { code: "ECONNREFUSED" });
  async function write(work: () => void, signal: AbortSignal | undefined): Promise<never> {
    const cut = new Promise<never>((_resolve, reject) => {
      signal?.addEventListener("abort", () => reject(new DOMException("cut", "AbortError")));
    });
    await Promise.race([held.until, cut]);
    if (world.trouble !== undefined) throw world.trouble();
    work();
    if (world.answersLost === true) throw away();
    return undefined as never;
  }
  const recorder = makeEventRecorder({
    calls: {
      create: (_resource, object, options) =>
        write(() => {
          const name = object.metadata?.name ?? "";
          if (stored.has(name)) throw new KubeError("POST", 409, { reason: "AlreadyExists" });
          stored.set(name, object as unknown as { message: string; count: number });
        }, options?.signal),
      patch: (_resource, name, { body }, options) =>
        write(() => {
          const known = stored.get(name);
          if (known === undefined) throw new KubeError("PATCH", 404, {});
          stored.set(name, { ...known, ...(body as object) });
        }, options?.signal),
    },
    component: "tested",
    clock,
    onDropped: (count) => reports.push(`dropped ${count}`),
    onError: (error) => reports.push(String(error)),
    ...more,
  });
  const events = () => [...stored.values()].map(({ message, count }) => `${message} x${count}`);
  return { recorder, clock, world, stored, events, reports, held, away };
}

it("writes an event once and updates its count, in as few writes as possible", async () => {
  const { recorder, events, held } = recorded();
  const free = Promise.withResolvers<undefined>();
  held.until = free.promise.then(() => undefined);
  for (let at = 0; at < 5; at += 1) recorder.record(target, event("a"));
  recorder.record(target, event("b"));
  free.resolve(undefined);
  await waitUntilSettled();
  expect(events()).toEqual(["a x5", "b x1"]);
  expect(recorder.stats().written).toBe(3);
});

it("recreates an event that the API server no longer has", async () => {
  const { recorder, events, stored } = recorded();
  recorder.record(target, event("a"));
  await waitUntilSettled();
  stored.clear();
  recorder.record(target, event("a"));
  await waitUntilSettled();
  expect(events()).toEqual(["a x2"]);
});

it("creates no second event after a creation without an answer", async () => {
  const { recorder, clock, world, events } = recorded();
  world.answersLost = true;
  recorder.record(target, event("a"));
  await waitUntilSettled();
  world.answersLost = false;
  recorder.record(target, event("a"));
  await clock.run(1000);
  expect(events()).toEqual(["a x2"]);
});

describe("when the API server is unavailable", () => {
  it("retries, and writes the current count", async () => {
    const { recorder, clock, world, events, away } = recorded();
    world.trouble = away;
    recorder.record(target, event("a"));
    await clock.run(5000);
    recorder.record(target, event("a"));
    delete world.trouble;
    await clock.run(20_000);
    expect(events()).toEqual(["a x2"]);
  });

  it("gives up an event after twelve attempts, and reports it", async () => {
    const { recorder, clock, world, reports, away } = recorded();
    world.trouble = away;
    recorder.record(target, event("a"));
    await clock.run(10 * 60_000);
    expect(reports).toEqual(["Error: refused"]);
    expect(recorder.stats()).toMatchObject({ written: 0, failed: 1 });
    expect(clock.alarms).toBe(0);
  });

  it("holds a limited number, never blocks its caller, and reports how many it lost", async () => {
    const { recorder, clock, world, events, reports, away } = recorded({ maxWaiting: 10 });
    world.trouble = away;
    for (let at = 0; at < 25; at += 1) recorder.record({ ...target, name: `p${at}` }, event("a"));
    expect(reports).toEqual([]);
    delete world.trouble;
    await clock.run(30_000);
    expect(reports).toEqual(["dropped 13"]);
    expect(events()).toHaveLength(12);
    expect(recorder.stats()).toMatchObject({ written: 12, dropped: 13 });
  });

  it("ends in time, and counts the events that are lost", async () => {
    const { recorder, clock, reports, held } = recorded({ flushMs: 1000 });
    held.until = new Promise(() => undefined);
    for (let at = 0; at < 5; at += 1) recorder.record({ ...target, name: `p${at}` }, event("a"));
    await waitUntilSettled();
    const ended = recorder[Symbol.asyncDispose]();
    await clock.run(1000);
    await ended;
    expect(recorder.stats()).toMatchObject({ written: 0, dropped: 3, failed: 2 });
    expect(reports).toEqual(["AbortError: cut", "AbortError: cut", "dropped 3"]);
  });
});

it("does not retry a refused event", async () => {
  const { recorder, clock, world, reports } = recorded();
  world.trouble = () => new KubeError("POST", 403, { reason: "Forbidden" });
  recorder.record(target, event("a"));
  await clock.run(60_000);
  expect(reports).toEqual(["KubeError: POST: 403 Forbidden"]);
});

it("writes waiting events when it is disposed, and nothing after that", async () => {
  const { recorder, clock, events } = recorded();
  for (const message of ["a", "b", "c"]) recorder.record(target, event(message));
  await recorder[Symbol.asyncDispose]();
  expect(events()).toEqual(["a x1", "b x1", "c x1"]);
  recorder.record(target, event("d"));
  await waitUntilSettled();
  expect(events()).toHaveLength(3);
  expect(clock.alarms).toBe(0);
});

it("limits the rate of events about one object, and counts them in the next that is written", async () => {
  const { recorder, clock, events } = recorded();
  for (let at = 0; at < 100; at += 1) {
    recorder.record(target, event("a"));
    await waitUntilSettled();
  }
  expect(events()).toEqual(["a x25"]);
  expect(recorder.stats()).toMatchObject({ written: 25, rateLimited: 75 });
  await clock.run(5 * 60_000);
  recorder.record(target, event("a"));
  await waitUntilSettled();
  expect(events()).toEqual(["a x101"]);
});
