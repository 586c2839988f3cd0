import { expect, it } from "vitest";
import { keepAnswers } from "./keep-answers.ts";

function world(maxEntries = 3) {
  let nowMs = 0;
  const asked: string[] = [];
  const answers = keepAnswers<string>({ keptMs: 10_000, maxEntries, nowMs: () => nowMs });
  const get = (key: string) =>
    answers.get(key, () => {
      asked.push(key);
      return key === "bad" ? Promise.reject(new Error("away")) : Promise.resolve(`${key}${asked.length}`);
    });
  return { answers, asked, get, wait: (ms: number) => void (nowMs += ms) };
}

it("requests an answer once while it is kept", async () => {
  const { get, wait } = world();
  expect(await Promise.all([get("a"), get("a")])).toEqual(["a1", "a1"]);
  wait(9999);
  expect(await get("a")).toBe("a1");
  wait(1);
  expect(await get("a")).toBe("a2");
});

it("does not keep a failure", async () => {
  const { get, asked } = world();
  await expect(get("bad")).rejects.toThrow("away");
  await expect(get("bad")).rejects.toThrow("away");
  expect(asked).toEqual(["bad", "bad"]);
});

it("drops the oldest answer beyond its limit", async () => {
  const { get, answers } = world(2);
  await Promise.all(["a", "b", "c"].map(get));
  expect(answers.size).toBe(2);
  expect([await get("b"), await get("c"), await get("a")]).toEqual(["b2", "c3", "a4"]);
});
