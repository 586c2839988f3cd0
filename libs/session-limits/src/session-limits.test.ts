import { describe, expect, it } from "vitest";
import { countSessionTextBytes } from "./session-limits.ts";

const component = {
  image: "i",
  workingDir: "/w",
  command: ["node"],
  args: ["-e", "é"],
  env: [{ name: "A", value: "" }],
};

describe("countSessionTextBytes", () => {
  it("counts bytes and not characters, and 8 more for each text", () => {
    expect(countSessionTextBytes([component])).toBe(1 + 2 + 4 + 2 + 2 + 1 + 0 + 7 * 8);
  });

  it("treats a missing directory of a component as an empty one", () => {
    const { workingDir: _, ...without } = component;
    expect(countSessionTextBytes([without])).toBe(countSessionTextBytes([{ ...component, workingDir: "" }]));
  });

  it("counts the text of a template", () => {
    expect(countSessionTextBytes([{ ...component, templateJson: '{"spec":{}}' }])).toBe(
      countSessionTextBytes([component]) + 11 + 8,
    );
    expect(countSessionTextBytes([{ ...component, templateJson: "" }])).toBe(countSessionTextBytes([component]));
  });

  it("counts the names of further pools", () => {
    expect(countSessionTextBytes([{ ...component, otherPools: ["h100", "a100"] }])).toBe(
      countSessionTextBytes([component]) + 2 * (4 + 8),
    );
  });

  it("adds up over components", () => {
    expect(countSessionTextBytes([component, component])).toBe(2 * countSessionTextBytes([component]));
    expect(countSessionTextBytes([])).toBe(0);
  });
});
