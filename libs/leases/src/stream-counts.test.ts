import { expect, it } from "vitest";
import { streamCounts } from "./stream-counts.ts";

it("gets the next count after each, and ends with its signal, even while it waits", async () => {
  const stop = new AbortController();
  const asked: number[] = [];
  const seen: number[] = [];
  const get = (after: number, signal: AbortSignal): Promise<{ number: number }> => {
    asked.push(after);
    if (after < 9) return Promise.resolve({ number: after + 3 });
    return new Promise((_resolve, reject) => {
      signal.addEventListener("abort", () => reject(new Error("cancelled")));
      stop.abort();
    });
  };
  for await (const { number } of streamCounts(get, stop.signal)) seen.push(number);
  expect(seen).toEqual([3, 6, 9]);
  expect(asked).toEqual([0, 3, 6, 9]);
});

it("rejects as `get` does, unless it was stopped", async () => {
  const get = () => Promise.reject(new Error("boom"));
  await expect(streamCounts(get, new AbortController().signal).next()).rejects.toThrow("boom");
  expect((await streamCounts(get, AbortSignal.abort()).next()).done).toBe(true);
});
