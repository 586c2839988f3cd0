import { expect, it } from "vitest";
import { makeBell } from "./bell.ts";

const LONG_MS = 600_000;
const never = new AbortController().signal;

it("ends a wait when it is rung", async () => {
  const bell = makeBell();
  const waiting = bell.wait(LONG_MS, never);
  bell.ring();
  expect(await waiting).toBe(true);
});

it("ends only the next wait immediately when it was rung before", async () => {
  const bell = makeBell();
  bell.ring();
  bell.ring();
  expect(await bell.wait(LONG_MS, never)).toBe(true);
  expect(await bell.wait(0, never)).toBe(false);
});

it("forgets rings on request", async () => {
  const bell = makeBell();
  bell.ring();
  bell.reset();
  expect(await bell.wait(0, never)).toBe(false);
});

it("waits no longer than the signal lets it, nor than a timer can hold", async () => {
  const bell = makeBell();
  const stop = new AbortController();
  const waiting = bell.wait(Number.POSITIVE_INFINITY, stop.signal);
  stop.abort();
  expect(await waiting).toBe(false);
  expect(await bell.wait(LONG_MS, stop.signal)).toBe(false);
});
