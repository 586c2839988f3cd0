import { describe, expect, it } from "vitest";
import { isNewEnough, parseVersion } from "./version.ts";

describe("the version of a server", () => {
  it.each([
    ["nats-server: v2.15.2\n", "2.15.2"],
    ["nats-server: v2.12.0-RC.1", "2.12.0-RC.1"],
    ["something else", undefined],
    ["", undefined],
  ])("in %j is %s", (said, version) => {
    expect(parseVersion(said)).toBe(version);
  });

  it.each([
    ["2.11.0", true],
    ["2.15.2", true],
    ["3.0.0", true],
    ["2.10.29", false],
    ["2.9.10", false],
    ["1.99.0", false],
  ])("%s is new enough: %s", (version, expected) => {
    expect(isNewEnough(version)).toBe(expected);
  });
});
