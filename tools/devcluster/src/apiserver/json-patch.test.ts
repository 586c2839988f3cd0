import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { JsonValue } from "./json.ts";
import { applyJsonPatch } from "./json-patch.ts";

describe("a JSON patch", () => {
  it.each<[string, JsonValue, JsonValue, JsonValue]>([
    ["adds a member", { a: 1 }, [{ op: "add", path: "/b", value: 2 }], { a: 1, b: 2 }],
    ["adds null", {}, [{ op: "add", path: "/a", value: null }], { a: null }],
    ["adds into a list", { a: [1, 3] }, [{ op: "add", path: "/a/1", value: 2 }], { a: [1, 2, 3] }],
    ["appends to a list", { a: [1] }, [{ op: "add", path: "/a/-", value: 2 }], { a: [1, 2] }],
    ["adds deep in lists", { a: [{ b: [] }] }, [{ op: "add", path: "/a/0/b/-", value: 1 }], { a: [{ b: [1] }] }],
    ["removes a member", { a: 1, b: 2 }, [{ op: "remove", path: "/a" }], { b: 2 }],
    ["removes from a list", { a: [1, 2] }, [{ op: "remove", path: "/a/0" }], { a: [2] }],
    ["replaces in a list", { a: [1, 2] }, [{ op: "replace", path: "/a/1", value: 3 }], { a: [1, 3] }],
    ["replaces the document", { a: 1 }, [{ op: "replace", path: "", value: { b: 1 } }], { b: 1 }],
    ["moves", { a: { b: 1 }, c: {} }, [{ op: "move", from: "/a/b", path: "/c/d" }], { a: {}, c: { d: 1 } }],
    ["copies", { a: [1] }, [{ op: "copy", from: "/a/0", path: "/a/-" }], { a: [1, 1] }],
    [
      "reads escapes",
      { "a/b": 1, "c~d": 2 },
      [
        { op: "remove", path: "/a~1b" },
        { op: "test", path: "/c~0d", value: 2 },
      ],
      { "c~d": 2 },
    ],
    [
      "takes odd keys for keys",
      {},
      [{ op: "add", path: "/__proto__", value: 1 }],
      JSON.parse('{"__proto__":1}') as JsonValue,
    ],
  ])("%s", (_title, document, patch, expected) => {
    expect(JSON.stringify(applyJsonPatch(document, patch))).toBe(JSON.stringify(expected));
  });

  it.each<[string, JsonValue]>([
    ["an unknown operation", [{ op: "turn", path: "/a" }]],
    ["a missing value", [{ op: "add", path: "/a" }]],
    ["a missing path", [{ op: "remove" }]],
    ["a path without a slash", [{ op: "remove", path: "a" }]],
    ["a member that is not there", [{ op: "remove", path: "/b" }]],
    ["a place behind the end", [{ op: "add", path: "/list/3", value: 1 }]],
    ["a place with a sign", [{ op: "remove", path: "/list/-1" }]],
    ["a place in a text", [{ op: "add", path: "/a/b", value: 1 }]],
    ["a test that fails", [{ op: "test", path: "/a", value: 2 }]],
    ["an inherited member", [{ op: "test", path: "/constructor", value: {} }]],
    ["a number", [1]],
  ])("is refused for %s", (_title, patch) => {
    expect(() => applyJsonPatch({ a: 1, list: [1, 2] }, patch)).toThrow("the server rejected our request");
  });

  it("is refused when it has more operations than allowed", () => {
    const patch = Array.from({ length: 10_001 }, () => ({ op: "add", path: "/a", value: 1 }));
    expect(() => applyJsonPatch({}, patch)).toThrow("allowed maximum operations");
  });

  it("reverts its additions, and leaves the given document unchanged", () => {
    fc.assert(
      fc.property(
        fc.dictionary(fc.string({ minLength: 1 }), fc.jsonValue()),
        fc.string({ minLength: 1 }),
        (dictionary, name) => {
          const document = dictionary as JsonValue;
          const before = JSON.stringify(document);
          const path = `/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`;
          fc.pre(!Object.hasOwn(dictionary, name));
          const added = applyJsonPatch(document, [{ op: "add", path, value: 1 }]);
          expect(JSON.stringify(applyJsonPatch(added, [{ op: "remove", path }]))).toBe(before);
          expect(JSON.stringify(document)).toBe(before);
        },
      ),
    );
  });
});
