import { describe, expect, it } from "vitest";
import { sessionTextBytes } from "./session-limits.ts";

const component = {
  image: "i",
  workingDir: "/w",
  command: ["node"],
  args: ["-e", "é"],
  env: [{ name: "A", value: "" }],
};

describe("sessionTextBytes", () => {
  it("counts bytes and not characters, and 8 more for each text", () => {
    expect(sessionTextBytes([component])).toBe(1 + 2 + 4 + 2 + 2 + 1 + 0 + 7 * 8);
  });

  it("treats a missing directory of a component as an empty one", () => {
    const { workingDir: _, ...without } = component;
    expect(sessionTextBytes([without])).toBe(sessionTextBytes([{ ...component, workingDir: "" }]));
  });

  it("counts the text of a template", () => {
    expect(sessionTextBytes([{ ...component, templateJson: '{"spec":{}}' }])).toBe(
      sessionTextBytes([component]) + 11 + 8,
    );
    expect(sessionTextBytes([{ ...component, templateJson: "" }])).toBe(sessionTextBytes([component]));
  });

  it("counts the names of further pools", () => {
    expect(sessionTextBytes([{ ...component, otherPools: ["h100", "a100"] }])).toBe(
      sessionTextBytes([component]) + 2 * (4 + 8),
    );
  });

  it("adds up over components", () => {
    expect(sessionTextBytes([component, component])).toBe(2 * sessionTextBytes([component]));
    expect(sessionTextBytes([])).toBe(0);
  });
});
