import { expect, it } from "vitest";
import { simulate } from "../src/simulate.ts";

it("gives the same trace, line by line, for the same seed", async () => {
  const [one, other] = [await simulate({ seed: 3, sessions: 10 }), await simulate({ seed: 3, sessions: 10 })];
  expect(one.trace.lines.length).toBeGreaterThan(500);
  expect(other.trace.lines).toEqual(one.trace.lines);
  expect(other.trace.hash()).toBe(one.trace.hash());
});
