import { expect, it } from "vitest";
import { createWakeups } from "./wakeups.ts";

const never = new AbortController().signal;
const LONG_MS = 60_000;

it("keeps what was told between two waits", async () => {
  const wakeups = createWakeups();
  using waker = wakeups.open("a");
  wakeups.podChanged("a");
  wakeups.granted("a");
  expect(await waker.wait({ ms: LONG_MS, knownRevision: 0, signal: never })).toEqual({
    revision: 0,
    podsChanged: true,
    granted: true,
  });
});

it("is not woken by what happens to others, nor by a revision that is known", async () => {
  const wakeups = createWakeups();
  using waker = wakeups.open("a");
  wakeups.podChanged("b");
  wakeups.recordChanged("a", 3);
  const waiting = waker.wait({ ms: LONG_MS, knownRevision: 3, signal: never });
  wakeups.recordChanged("a", 2);
  wakeups.recordChanged("a", 4);
  expect(await waiting).toEqual({ revision: 4, podsChanged: false, granted: false });
});

it("returns with nothing when the time is over, and at once when it is told to stop", async () => {
  const wakeups = createWakeups();
  using waker = wakeups.open("a");
  const nothing = { revision: 0, podsChanged: false, granted: false };
  expect(await waker.wait({ ms: 1, knownRevision: 0, signal: never })).toEqual(nothing);
  const stop = new AbortController();
  const waiting = waker.wait({ ms: LONG_MS, knownRevision: 0, signal: stop.signal });
  stop.abort();
  expect(await waiting).toEqual(nothing);
});

it("tells those who follow a session of its changes, and counts only its executors as told", async () => {
  const wakeups = createWakeups();
  using follower = wakeups.follow("a");
  expect([wakeups.granted("a"), wakeups.podChanged("a"), wakeups.recordChanged("a", 2)]).toEqual([false, false, false]);
  expect(await follower.wait({ ms: LONG_MS, knownRevision: 1, signal: never })).toMatchObject({ revision: 2 });
  const executor = wakeups.open("a");
  expect([wakeups.granted("a"), wakeups.podChanged("a"), wakeups.recordChanged("a", 3)]).toEqual([true, true, true]);
  expect(follower.isDue(2)).toBe(true);
  executor[Symbol.dispose]();
  expect(wakeups.granted("a")).toBe(false);
});
