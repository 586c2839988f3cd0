import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { matchesLabels } from "@muster/names";
import { matchesFields, parseFieldSelector, parseLabelSelector } from "./selectors.ts";

const key = fc.constantFrom("app", "tier", "example.com/role", "in", "notin");
const value = fc.constantFrom("", "web", "db", "1", "20");
const labels = fc.dictionary(key, value, { maxKeys: 5 });

/** A requirement as text, and its meaning. */
const requirement = fc.oneof(
  fc.record({ key, value }).map(({ key, value }) => ({
    text: `${key}=${value}`,
    holds: (labels: Record<string, string>) => labels[key] === value,
  })),
  fc.record({ key, value }).map(({ key, value }) => ({
    text: `${key} != ${value}`,
    holds: (labels: Record<string, string>) => labels[key] !== value,
  })),
  fc
    .record({ key, values: fc.array(value, { minLength: 1 }), negated: fc.boolean() })
    .map(({ key, values, negated }) => ({
      text: `${key} ${negated ? "notin" : "in"} (${values.join(", ")})`,
      holds: (labels: Record<string, string>) => values.some((one) => one === labels[key]) !== negated,
    })),
  fc.record({ key, negated: fc.boolean() }).map(({ key, negated }) => ({
    text: `${negated ? "!" : ""}${key}`,
    holds: (labels: Record<string, string>) => key in labels !== negated,
  })),
);

describe("label selectors", () => {
  it("match the conjunction of their requirements", () => {
    fc.assert(
      fc.property(fc.array(requirement, { maxLength: 4 }), labels, (requirements, labels) => {
        const selector = parseLabelSelector(requirements.map(({ text }) => text).join(","));
        expect(matchesLabels(selector, labels)).toBe(requirements.every(({ holds }) => holds(labels)));
      }),
    );
  });

  it("are parsed or refused, whatever they contain", () => {
    const noise = fc.string({
      unit: fc.constantFrom("a", "b", "1", "=", "!", ",", "(", ")", "<", ">", " ", "in", "é", "-"),
    });
    fc.assert(
      fc.property(noise, (text) => {
        try {
          parseLabelSelector(text);
        } catch (error) {
          expect(error).toMatchObject({ failure: { code: 400, reason: "BadRequest" } });
        }
      }),
    );
  });

  it("compare numbers as numbers", () => {
    expect(matchesLabels(parseLabelSelector("tier>9"), { tier: "20" })).toBe(true);
    expect(matchesLabels(parseLabelSelector("tier<9"), { tier: "20" })).toBe(false);
    expect(matchesLabels(parseLabelSelector("tier>9"), { tier: "many" })).toBe(false);
  });

  it("do not treat inherited properties as labels", () => {
    expect(matchesLabels(parseLabelSelector("constructor"), {})).toBe(false);
  });
});

describe("field selectors", () => {
  const fields = { "metadata.name": () => "a,b=c\\d", "spec.nodeName": () => "" };

  it.each([
    ["metadata.name=a\\,b\\=c\\\\d", true],
    ["metadata.name!=a\\,b\\=c\\\\d", false],
    ["spec.nodeName=", true],
    ["spec.nodeName==,metadata.name!=x", true],
    ["spec.nodeName!=", false],
    ["", true],
  ])("%s is %s", (text, expected) => {
    expect(matchesFields(parseFieldSelector(text, fields), {}, fields)).toBe(expected);
  });

  it.each(["spec.other=a", "constructor=a", "metadata.name", "=a"])("refuses %s", (text) => {
    expect(() => parseFieldSelector(text, fields)).toThrow();
  });
});
