import { expect, it } from "vitest";
import { staleVersions } from "./stale-versions.ts";

function tested() {
  const clock = { nowMs: 0 };
  return { clock, stale: staleVersions(() => clock.nowMs) };
}

it("waits for another version than the stale one, and asks again after a while", () => {
  const { clock, stale } = tested();
  expect(stale.waitMs("a", undefined)).toBeUndefined();
  stale.record("a", "5");
  clock.nowMs = 1000;
  expect(stale.waitMs("a", "5")).toBe(4000);
  expect(stale.waitMs("a", "6")).toBeUndefined();
  expect(stale.waitMs("b", "5")).toBeUndefined();
  clock.nowMs = 5000;
  expect(stale.waitMs("a", "5")).toBeUndefined();
});

it("waits no more once the cache has changed", () => {
  const { stale } = tested();
  stale.record("a", "5");
  stale.forget("a");
  expect(stale.waitMs("a", "5")).toBeUndefined();
});
