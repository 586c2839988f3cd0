import fc from "fast-check";
import { expect, it } from "vitest";
import { findNearestName } from "./nearest-name.ts";

const KNOWN = ["components", "scenario", "timeout", "queueTimeout", "ttl", "killAfter", "priority", "workerPort"];

it.each([
  ["timout", "timeout"],
  ["Timeout", "timeout"],
  ["TTL", "ttl"],
  ["componnets", "components"],
  ["queuetimeout", "queueTimeout"],
  ["killafter", "killAfter"],
  ["flavour", undefined],
  ["x", undefined],
  ["", undefined],
])("takes %s for %s", (wrong, meant) => {
  expect(findNearestName(wrong, KNOWN)).toBe(meant);
});

it("finds any name after one mistake, unless another name is as near", () => {
  fc.assert(
    fc.property(fc.constantFrom(...KNOWN.filter((name) => name.length > 3)), fc.nat(), (name, at) => {
      const index = at % name.length;
      expect(findNearestName(name.slice(0, index) + name.slice(index + 1), KNOWN)).toBe(name);
    }),
  );
});

it("does not hang on a name of any length", () => {
  expect(findNearestName("x".repeat(1_000_000), KNOWN)).toBeUndefined();
});
