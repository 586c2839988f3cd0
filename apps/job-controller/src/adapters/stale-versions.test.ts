import { expect, it } from "vitest";
import { makeStaleVersions } from "./stale-versions.ts";

function tested() {
  const clock = { nowMs: 0 };
  return { clock, stale: makeStaleVersions(() => clock.nowMs) };
}

it("waits for another version than the stale one, and retries after a while", () => {
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

it("waits for a version after the newest stale one, in whatever order they are recorded", () => {
  const { clock, stale } = tested();
  stale.record("a", "10");
  stale.record("a", "9");
  for (const version of ["8", "9", "10"]) expect(stale.waitMs("a", version)).toBe(5000);
  clock.nowMs = 1000;
  stale.record("a", "8");
  expect(stale.waitMs("a", "10")).toBe(5000);
  expect(stale.waitMs("a", "11")).toBeUndefined();
  expect(stale.waitMs("a", "10")).toBeUndefined();
});

it("compares nothing without a version", () => {
  const { stale } = tested();
  stale.record("a", undefined);
  expect(stale.waitMs("a", undefined)).toBe(5000);
  expect(stale.waitMs("a", "1")).toBeUndefined();
});

it("does not wait after the job is deleted", () => {
  const { stale } = tested();
  stale.record("a", "5");
  stale.forget("a");
  expect(stale.waitMs("a", "5")).toBeUndefined();
});
