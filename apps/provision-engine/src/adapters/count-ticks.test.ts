import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { countTicks } from "./count-ticks.ts";

beforeEach(() => {
  vi.useFakeTimers({ now: 500 });
});

afterEach(() => {
  vi.useRealTimers();
});

it("resolves all waiting calls at the next tick with one timer, and has no timer without waiting calls", async () => {
  const { next } = countTicks(2000, Date.now);
  const gone = new AbortController();
  const atMs: number[] = [];
  const ask = async (signal: AbortSignal): Promise<void> => {
    await next(signal);
    atMs.push(Date.now());
  };
  const asked = [ask(new AbortController().signal), ask(gone.signal), ask(new AbortController().signal)];
  expect(vi.getTimerCount()).toBe(1);
  gone.abort();
  await asked[1];
  expect(vi.getTimerCount()).toBe(1);
  await vi.advanceTimersByTimeAsync(1500);
  await Promise.all(asked);
  expect(atMs).toEqual([500, 2000, 2000]);
  expect(vi.getTimerCount()).toBe(0);
  const last = new AbortController();
  const alone = ask(last.signal);
  expect(vi.getTimerCount()).toBe(1);
  last.abort();
  await alone;
  await ask(last.signal);
  expect(vi.getTimerCount()).toBe(0);
});
