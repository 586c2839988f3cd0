import { expect, it } from "vitest";
import { makeFollowers } from "./followers.ts";

const never = new AbortController().signal;
const LONG_MS = 600_000;

it("wakes the followers of a changed session, and no others", async () => {
  const followers = makeFollowers();
  using mine = followers.follow("a");
  using other = followers.follow("b");
  let isOtherAwake = false;
  const stop = new AbortController();
  const waiting = other.wait({ ms: LONG_MS, knownRevision: 0, signal: stop.signal }).then(() => {
    isOtherAwake = true;
  });
  const woken = mine.wait({ ms: LONG_MS, knownRevision: 1, signal: never });
  followers.changed("a", 1);
  followers.changed("a", 2);
  await woken;
  expect(isOtherAwake).toBe(false);
  stop.abort();
  await waiting;
});

it("does not wait for a change that was already reported", async () => {
  const followers = makeFollowers();
  using follower = followers.follow("a");
  followers.changed("a", 7);
  await follower.wait({ ms: LONG_MS, knownRevision: 6, signal: never });
  await follower.wait({ ms: 0, knownRevision: 7, signal: never });
});

it("forgets followers that have left", () => {
  const followers = makeFollowers();
  followers.follow("a")[Symbol.dispose]();
  expect(() => followers.changed("a", 1)).not.toThrow();
});
