import { expect, it } from "vitest";
import { failedTokens } from "./failed-tokens.ts";

const RATE = { perSecond: 0.5, burst: 2 };
const known = () => Promise.resolve("ada");
const unknown = () => Promise.resolve(undefined);

function clocked() {
  const clock = { nowMs: 0 };
  return { clock, tokens: failedTokens(RATE, () => clock.nowMs) };
}

it("refuses an address after a burst of unknown tokens, until its rate allows another", async () => {
  const { clock, tokens } = clocked();
  const refusalOf = async (address: string) => (await tokens.review(address, "c", unknown)).refusal;
  for (const token of ["a", "b"]) expect(await tokens.review("10.0.0.1", token, unknown)).toEqual({ user: undefined });
  expect(await refusalOf("10.0.0.1")).toMatchObject({ retryAfterMs: 2000, reportRefused: 1 });
  expect(await refusalOf("10.0.0.1")).toMatchObject({ reportRefused: undefined });
  expect(await refusalOf("10.0.0.2")).toBeUndefined();
  clock.nowMs = 2000;
  expect(await refusalOf("10.0.0.1")).toBeUndefined();
});

it("reviews no more than a burst of concurrent tokens", async () => {
  const { tokens } = clocked();
  let asked = 0;
  const review = () => {
    asked += 1;
    return unknown();
  };
  await Promise.all(Array.from({ length: 500 }, (_, number) => tokens.review("10.0.0.1", `t-${number}`, review)));
  expect(asked).toBe(2);
});

it("reviews the token of concurrent requests once", async () => {
  const { tokens } = clocked();
  let asked = 0;
  const review = () => {
    asked += 1;
    return known();
  };
  const answers = await Promise.all(Array.from({ length: 8 }, () => tokens.review("10.0.0.1", "good", review)));
  expect(answers.every(({ user }) => user === "ada")).toBe(true);
  expect(asked).toBe(1);
});

it("does not charge known tokens, and reviews them although others behind the address send unknown ones", async () => {
  const { tokens } = clocked();
  for (let number = 0; number < 10; number += 1) await tokens.review("10.0.0.1", `good-${number}`, known);
  for (const token of ["a", "b"]) expect(await tokens.review("10.0.0.1", token, unknown)).toEqual({ user: undefined });
  expect(await tokens.review("10.0.0.1", "good-1", known)).toEqual({ user: "ada" });
  expect((await tokens.review("10.0.0.1", "new", known)).refusal).toBeDefined();
});

it("charges nothing while the cluster does not answer", async () => {
  const { tokens } = clocked();
  for (let number = 0; number < 10; number += 1)
    await expect(tokens.review("10.0.0.1", "a", () => Promise.reject(new Error("away")))).rejects.toThrow("away");
});

it("counts a known token that has expired", async () => {
  const { tokens } = clocked();
  await tokens.review("10.0.0.1", "good", known);
  for (let number = 0; number < 2; number += 1) await tokens.review("10.0.0.1", "good", unknown);
  expect((await tokens.review("10.0.0.1", "good", known)).refusal).toBeDefined();
});

it("lets addresses beyond the limit share one rate", async () => {
  const { tokens } = clocked();
  for (let address = 0; address < 10_000; address += 1) await tokens.review(`10.0.0.${address}`, "a", unknown);
  for (const address of ["new-1", "new-2"])
    expect(await tokens.review(address, "a", unknown)).toEqual({ user: undefined });
  expect((await tokens.review("new-3", "a", unknown)).refusal).toBeDefined();
  expect((await tokens.review("10.0.0.1", "a", unknown)).refusal).toBeUndefined();
});
