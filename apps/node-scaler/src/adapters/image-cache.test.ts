import { makeFixedClock } from "@muster/testkit";
import { expect, it } from "vitest";
import { makeImageCache } from "./image-cache.ts";

function cached() {
  const clock = makeFixedClock(0);
  const answers: (string | Error)[] = [];
  const asked: string[] = [];
  const stale: unknown[] = [];
  const cache = makeImageCache({
    ttlMs: 300_000,
    now: clock.now,
    ask: (provider) => {
      asked.push(provider);
      const answer = answers.shift() ?? new Error("no answer is left");
      return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
    },
    onStale: (_provider, error) => stale.push(error),
  });
  return { clock, answers, asked, stale, find: (properties = {}) => cache.find("cloud", properties) };
}

it("requests an image once in five minutes, and once for concurrent callers", async () => {
  const { clock, answers, asked, find } = cached();
  answers.push("one", "other");
  expect(await Promise.all([find(), find()])).toEqual(["one", "one"]);
  clock.advance(299_999);
  expect(await find()).toBe("one");
  expect(await find({ name: "x" })).toBe("other");
  expect(asked).toHaveLength(2);
});

it("returns the old image while it requests a new one", async () => {
  const { clock, answers, find } = cached();
  answers.push("old", "new");
  await find();
  clock.advance(300_000);
  expect(await find()).toBe("old");
  await new Promise(setImmediate);
  expect(await find()).toBe("new");
});

it("returns the old image while the provider fails, and fails without one", async () => {
  const { clock, answers, stale, find } = cached();
  answers.push(new Error("down"), "old", new Error("down again"), "new");
  await expect(find()).rejects.toThrow("down");
  expect(await find()).toBe("old");
  clock.advance(300_000);
  expect(await find()).toBe("old");
  await new Promise(setImmediate);
  expect(stale).toHaveLength(1);
  expect(await find()).toBe("old");
  await new Promise(setImmediate);
  expect(await find()).toBe("new");
});
