import { expect, it } from "vitest";
import { describeLeft, describePassed } from "./describe-duration.ts";

it.each([
  [0, "0 s", "0 s"],
  [-5, "0 s", "0 s"],
  [59_001, "59 s", "1m00s"],
  [590_000, "9m50s", "9m50s"],
  [3_599_001, "59m59s", "1h00m"],
  [90_061_000, "25h01m", "25h01m"],
])("formats %d elapsed ms as %s, and remaining ms as %s", (ms, passed, left) => {
  expect([describePassed(ms), describeLeft(ms)]).toEqual([passed, left]);
});
