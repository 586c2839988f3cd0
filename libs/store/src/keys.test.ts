import { FaultError } from "@muster/faults";
import { describe, expect, it } from "vitest";
import { compareKeys, requireValidFilter, requireValidKey } from "./keys.ts";

function reasonOf(check: () => unknown): unknown {
  try {
    return check();
  } catch (error) {
    return error instanceof FaultError ? error.fault : error;
  }
}

describe("a key", () => {
  it.each(["a", "a.b", "A-1_/=.z.9", "x".repeat(512)])("may be %s", (key) => {
    expect(requireValidKey(key)).toBe(key);
  });

  it.each(["", ".", "a.", ".a", "a..b", "a b", "a.*", "a.>", "*", ">", "ä", "a.ä", "ä.a", "a\n"])(
    "cannot be %j",
    (key) => {
      expect(reasonOf(() => requireValidKey(key))).toEqual({
        code: "invalid_request",
        field: "key",
        reason: `"${key}" cannot be a key`,
      });
    },
  );

  it("has at most 512 bytes, and the error quotes its beginning", () => {
    expect(reasonOf(() => requireValidKey("x".repeat(513)))).toEqual({
      code: "invalid_request",
      field: "key",
      reason: `"${"x".repeat(64)}" is longer than 512 bytes`,
    });
  });
});

describe("a filter", () => {
  it.each(["a", "a.b", "*", "a.*", "*.b", "*.*", "a.>", "a.*.>", "*.>", ">", "x".repeat(512)])(
    "may be %s",
    (filter) => {
      expect(requireValidFilter(filter)).toBe(filter);
    },
  );

  it.each([
    "",
    ".",
    "a.",
    ".a",
    "a..b",
    "a b",
    "a*",
    "*a",
    "a.>.b",
    "a>",
    ">a",
    ">.a",
    "a.b*",
    "ä",
    "a.ä",
    "ä.a",
    "a.**",
  ])("cannot be %j", (filter) => {
    expect(reasonOf(() => requireValidFilter(filter))).toEqual({
      code: "invalid_request",
      field: "filter",
      reason: `"${filter}" cannot be a filter of keys`,
    });
  });

  it("has at most 512 bytes", () => {
    expect(reasonOf(() => requireValidFilter("x".repeat(513)))).toMatchObject({
      field: "filter",
      reason: `"${"x".repeat(64)}" is longer than 512 bytes`,
    });
  });
});

it("orders keys by their code units", () => {
  const compare = (a: string, b: string) => compareKeys({ key: a }, { key: b });
  expect([compare("a", "b"), compare("b", "a"), compare("a", "a"), compare("B", "a")]).toEqual([-1, 1, 0, -1]);
});
