import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { JsonValue, JsonObject } from "../json.ts";
import { fillDefaults } from "./fill-defaults.ts";
import { pruneFields } from "./prune.ts";
import { validateValue } from "./validate-value.ts";
import type { StructuralSchema } from "./structural.ts";

const text: JsonObject = { type: "string", default: "t" };
const SCHEMA: StructuralSchema = {
  type: "object",
  properties: {
    a: text,
    b: { type: "object", properties: { a: text, c: { type: "integer", minimum: 0 } } },
    c: {
      type: "array",
      maxItems: 2,
      items: { type: "object", required: ["b"], properties: { a: text, b: { type: "boolean" } } },
    },
    d: { type: "object", additionalProperties: { type: "object", properties: { a: text } } },
    e: { type: "object", "x-kubernetes-preserve-unknown-fields": true, properties: { a: text } },
  },
};

/** Objects with fields of the schema, with valid and invalid values. */
const object: fc.Arbitrary<JsonObject> = fc
  .object({
    key: fc.constantFrom("a", "b", "c", "d", "e", "x", "__proto__"),
    values: [fc.constant(null), fc.boolean(), fc.integer({ min: -1, max: 3 }), fc.constantFrom("t", "u")],
    maxDepth: 4,
  })
  .map((value) => JSON.parse(JSON.stringify(value)) as JsonObject);

describe("a schema", () => {
  it("fills in defaults once: the second time changes nothing", () => {
    fc.assert(
      fc.property(object, (given) => {
        const filled = fillDefaults(SCHEMA, given);
        expect(fillDefaults(SCHEMA, filled)).toBe(filled);
      }),
    );
  });

  it("keeps given values when it fills in defaults", () => {
    fc.assert(
      fc.property(object, (given) => {
        const filled = fillDefaults(SCHEMA, given) as JsonObject;
        for (const key of Object.keys(given)) expect(Object.hasOwn(filled, key)).toBe(true);
      }),
    );
  });

  it("drops unknown fields once, and names each", () => {
    fc.assert(
      fc.property(object, (given) => {
        const first = pruneFields(SCHEMA, given);
        expect(pruneFields(SCHEMA, first.object)).toEqual({ object: first.object, unknown: [] });
        const same = JSON.stringify(first.object) === JSON.stringify(given);
        expect(first.unknown.length === 0).toBe(same);
      }),
    );
  });

  it("accepts an unchanged value, however invalid it is", () => {
    fc.assert(
      fc.property(object, (given) => {
        expect(validateValue(SCHEMA, given, "", given)).toEqual([]);
      }),
    );
  });

  it("finds no more problems in a change than in a new object", () => {
    fc.assert(
      fc.property(object, object, (before, after) => {
        const whole = validateValue(SCHEMA, after, "").map(({ field, message }) => `${field}: ${message}`);
        for (const { field, message } of validateValue(SCHEMA, after, "", before)) {
          expect(whole).toContain(`${field}: ${message}`);
        }
      }),
    );
  });

  it.each<[JsonValue, readonly string[]]>([
    [{ a: "x", b: { c: 1 }, c: [{ b: true }], d: { k: {} }, e: { x: 1 } }, []],
    [{ b: { c: -1 } }, ["b.c"]],
    [{ c: [{}, { b: 1 }, { b: true }] }, ["c[0].b", "c[1].b", "c"]],
    [{ d: { k: "x" } }, ["d.k"]],
    ["no object", ["<nil>"]],
  ])("names the wrong field of %j", (value, fields) => {
    expect(validateValue(SCHEMA, value, "").map(({ field }) => field)).toEqual(fields);
  });
});
