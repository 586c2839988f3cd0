import { describe, expect, it } from "vitest";
import { isNilResult } from "./controller-messages.ts";

describe("a result", () => {
  it.each([
    [0n, "", true],
    [0n, "null", true],
    [-62_135_596_800_000_000_000n, "null", true],
    [1n, "null", false],
    [0n, "{}", false],
    [0n, " null", false],
  ])("of the time %s with the data %j was never produced: %s", (createdNs, data, nil) => {
    expect(isNilResult({ createdNs, data })).toBe(nil);
  });
});
