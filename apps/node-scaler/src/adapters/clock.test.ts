import { expect, it } from "vitest";
import { makeSteadyClock } from "./clock.ts";

it("keeps counting when the wall clock is set", () => {
  let [wallMs, tickedMs] = [1_000_000, 50];
  const clock = makeSteadyClock(
    () => wallMs,
    () => tickedMs,
  );
  expect([clock.now(), clock.wallNow()]).toEqual([1_000_000, 1_000_000]);
  [wallMs, tickedMs] = [5_000_000, 150];
  expect([clock.now(), clock.wallNow()]).toEqual([1_000_100, 5_000_000]);
  wallMs = 0;
  expect([clock.now(), clock.wallNow()]).toEqual([1_000_100, 0]);
});
