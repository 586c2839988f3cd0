import { describe, expect, it } from "vitest";
import { settled, virtualClock } from "@muster/testkit";
import type { EventTarget } from "./event-correlation.ts";
import { eventRecorder, type EventRecorderOptions } from "./event-recorder.ts";
import { KubeError } from "./kube-error.ts";

const target: EventTarget = { apiVersion: "v1", kind: "Pod", namespace: "ns", name: "p", uid: "1" };
const event = (message: string) => ({ type: "Normal" as const, reason: "Made", message });

/** A recorder and the events of an API server that does as `trouble` says: nothing, an error before the effect, or one after it. */
function recorded(more: Partial<EventRecorderOptions> = {}) {
  const clock = virtualClock();
  const stored = new Map<string, { message: string; count: number }>();
  const told: string[] = [];
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
  const recorder = eventRecorder({
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
    onDropped: (count) => told.push(`dropped ${count}`),
    onError: (error) => told.push(String(error)),
    ...more,
  });
  const events = () => [...stored.values()].map(({ message, count }) => `${message} x${count}`);
  return { recorder, clock, world, stored, events, told, held, away };
}

it("writes an event once and counts it up, in as few writes as it can", async () => {
  const { recorder, events, held } = recorded();
  const free = Promise.withResolvers<undefined>();
  held.until = free.promise.then(() => undefined);
  for (let at = 0; at < 5; at += 1) recorder.record(target, event("a"));
  recorder.record(target, event("b"));
  free.resolve(undefined);
  await settled();
  expect(events()).toEqual(["a x5", "b x1"]);
  expect(recorder.stats().written).toBe(3);
});

it("creates an event anew when the API server has forgotten it", async () => {
  const { recorder, events, stored } = recorded();
  recorder.record(target, event("a"));
  await settled();
  stored.clear();
  recorder.record(target, event("a"));
  await settled();
  expect(events()).toEqual(["a x2"]);
});

it("makes no second event of one whose creation was not answered", async () => {
  const { recorder, clock, world, events } = recorded();
  world.answersLost = true;
  recorder.record(target, event("a"));
  await settled();
  world.answersLost = false;
  recorder.record(target, event("a"));
  await clock.run(1000);
  expect(events()).toEqual(["a x2"]);
});

describe("when the API server is away", () => {
  it("tries again, and writes the count as it is by then", async () => {
    const { recorder, clock, world, events, away } = recorded();
    world.trouble = away;
    recorder.record(target, event("a"));
    await clock.run(5000);
    recorder.record(target, event("a"));
    delete world.trouble;
    await clock.run(20_000);
    expect(events()).toEqual(["a x2"]);
  });

  it("gives an event up after twelve attempts, and says so", async () => {
    const { recorder, clock, world, told, away } = recorded();
    world.trouble = away;
    recorder.record(target, event("a"));
    await clock.run(10 * 60_000);
    expect(told).toEqual(["Error: refused"]);
    expect(recorder.stats()).toMatchObject({ written: 0, failed: 1 });
    expect(clock.alarms).toBe(0);
  });

  it("holds a limited number, never makes anybody wait, and says how many it lost", async () => {
    const { recorder, clock, world, events, told, away } = recorded({ waitingMax: 10 });
    world.trouble = away;
    for (let at = 0; at < 25; at += 1) recorder.record({ ...target, name: `p${at}` }, event("a"));
    expect(told).toEqual([]);
    delete world.trouble;
    await clock.run(30_000);
    expect(told).toEqual(["dropped 13"]);
    expect(events()).toHaveLength(12);
    expect(recorder.stats()).toMatchObject({ written: 12, dropped: 13 });
  });

  it("ends in time, and counts what is lost by that", async () => {
    const { recorder, clock, told, held } = recorded({ flushMs: 1000 });
    held.until = new Promise(() => undefined);
    for (let at = 0; at < 5; at += 1) recorder.record({ ...target, name: `p${at}` }, event("a"));
    await settled();
    const ended = recorder[Symbol.asyncDispose]();
    await clock.run(1000);
    await ended;
    expect(recorder.stats()).toMatchObject({ written: 0, dropped: 3, failed: 2 });
    expect(told).toEqual(["AbortError: cut", "AbortError: cut", "dropped 3"]);
  });
});

it("does not try again what the API server refuses", async () => {
  const { recorder, clock, world, told } = recorded();
  world.trouble = () => new KubeError("POST", 403, { reason: "Forbidden" });
  recorder.record(target, event("a"));
  await clock.run(60_000);
  expect(told).toEqual(["KubeError: POST: 403 Forbidden"]);
});

it("writes what waits when it is disposed, and nothing after that", async () => {
  const { recorder, clock, events } = recorded();
  for (const message of ["a", "b", "c"]) recorder.record(target, event(message));
  await recorder[Symbol.asyncDispose]();
  expect(events()).toEqual(["a x1", "b x1", "c x1"]);
  recorder.record(target, event("d"));
  await settled();
  expect(events()).toHaveLength(3);
  expect(clock.alarms).toBe(0);
});

it("spares the API server the many events about one object, and counts them in the next that is written", async () => {
  const { recorder, clock, events } = recorded();
  for (let at = 0; at < 100; at += 1) {
    recorder.record(target, event("a"));
    await settled();
  }
  expect(events()).toEqual(["a x25"]);
  expect(recorder.stats()).toMatchObject({ written: 25, spared: 75 });
  await clock.run(5 * 60_000);
  recorder.record(target, event("a"));
  await settled();
  expect(events()).toEqual(["a x101"]);
});
