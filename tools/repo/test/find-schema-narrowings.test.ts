import { describe, expect, it } from "vitest";
import { findNarrowings } from "../find-schema-narrowings.ts";

const BEFORE = {
  type: "object",
  properties: {
    name: { type: "string", maxLength: 10, pattern: "^a" },
    kind: { enum: ["A", "B"] },
    count: { type: "integer", minimum: 1 },
    size: { $ref: "#/$defs/size" },
    labels: { type: "object", additionalProperties: { type: "string", maxLength: 5 } },
    list: { type: "array", items: { type: "object", properties: { of: { type: ["string", "integer"] } } } },
    rest: { type: "object" },
  },
  required: ["name"],
  "x-kubernetes-validations": [{ rule: "self.count > 0" }],
  $defs: { size: { type: "string" } },
};

/** The schema with other keywords at `path`. */
function changed(path: string, keywords: object): typeof BEFORE {
  const copy = structuredClone(BEFORE);
  const place = path === "" ? [] : path.split("/");
  Object.assign(
    place.reduce<object>((at, key) => (at as Record<string, object>)[key] ?? {}, copy),
    keywords,
  );
  return copy;
}

const find = (after: object, areComplete = true): string[] => findNarrowings({ before: BEFORE, after, areComplete });

describe("what a schema no longer accepts", () => {
  it.each([
    ["a removed field", "properties", { count: undefined }, "count: the field is removed"],
    ["another type", "properties/count", { type: "string" }, "count: the type integer is refused"],
    [
      "one type less",
      "properties/list/items/properties/of",
      { type: "string" },
      "list[].of: the type integer is refused",
    ],
    ["another type behind a reference", "$defs/size", { type: "integer" }, "size: the type string is refused"],
    ["one value less", "properties/kind", { enum: ["A"] }, 'kind: the value "B" is refused'],
    ["values of their own", "properties/name", { enum: ["a"] }, 'name: the value "any other" is refused'],
    ["a lower maximum", "properties/name", { maxLength: 9 }, "name: maxLength was 10 and is 9"],
    ["a higher minimum", "properties/count", { minimum: 2 }, "count: minimum was 1 and is 2"],
    ["a new bound", "properties/count", { maximum: 5 }, "count: maximum was none and is 5"],
    ["another pattern", "properties/name", { pattern: "^b" }, 'name: pattern was "^a" and is "^b"'],
    ["a new required field", "", { required: ["name", "kind"] }, "the document: the field kind is required"],
    ["a new rule", "", { "x-kubernetes-validations": [{ rule: "false" }] }, "the document: the rule false is new"],
    ["no other fields", "properties/rest", { additionalProperties: false }, "rest: other fields are refused"],
    [
      "narrower other fields",
      "properties/labels/additionalProperties",
      { maxLength: 4 },
      "labels.*: maxLength was 5 and is 4",
    ],
  ])("names %s", (_what, path, keywords, line) => {
    expect(find(changed(path, keywords))).toEqual([line]);
  });

  it.each([
    ["no change", "", {}],
    ["a new field", "properties", { other: { type: "string", maxLength: 1 } }],
    ["a wider type", "properties/count", { type: "number" }],
    ["one value more", "properties/kind", { enum: ["A", "B", "C"] }],
    ["no values of their own", "properties/kind", { enum: undefined }],
    ["a wider bound", "properties/name", { maxLength: 11 }],
    ["no pattern", "properties/name", { pattern: undefined }],
    ["a field that is no longer required", "", { required: [] }],
    ["no rule", "", { "x-kubernetes-validations": undefined }],
  ])("accepts %s", (_what, path, keywords) => {
    expect(find(changed(path, keywords))).toEqual([]);
  });

  it("accepts a new required field where defaults supply it", () => {
    expect(find(changed("", { required: ["name", "kind"] }), false)).toEqual([]);
  });
});
