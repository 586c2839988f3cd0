import { describe, expect, it } from "vitest";
import type { JsonObject } from "../json.ts";
import { compileRules } from "./rules.ts";

const found = (spec: JsonObject, rule: string, value: JsonObject): readonly string[] => {
  const schema = {
    type: "object",
    properties: { spec: { type: "object", properties: spec, "x-kubernetes-validations": [{ rule }] } },
  };
  const rules = compileRules(schema);
  if (rules.defects.length > 0) return rules.defects.map(({ because }) => because);
  return rules.validate({ kind: "Test", spec: value }, undefined).map(({ message }) => message);
};
const list = (type: string): JsonObject => ({ l: { type: "array", items: { type } } });

describe("rules", () => {
  it.each<[string, JsonObject, JsonObject]>([
    ["self.l.sum() == 6", list("integer"), { l: [3, 1, 2] }],
    ["size(self.t) == 2 && self.t.matches('^a+$')", { t: { type: "string" } }, { t: "aa" }],
    ["self.?t.orValue('none') == 'none'", { t: { type: "string" } }, {}],
    ["has(self.namespace) && self.namespace == 'x'", { namespace: { type: "string" } }, { namespace: "x" }],
    ["size(self.n) == 1 && self.n.all(k, k in self.n)", { n: { type: "object" } }, { n: { a: {} } }],
    ["self.n.?a.b.orValue(2) == 1", { n: { type: "object" } }, { n: { a: { b: 1 } } }],
    ["self.n.?x.b.orValue(2) == 2", { n: { type: "object" } }, { n: { a: { b: 1 } } }],
    [
      "self.o == {'a': 1} || self.o.a == 1",
      { o: { type: "object", additionalProperties: { type: "integer" } } },
      { o: { a: 1 } },
    ],
  ])("know %s", (rule, spec, value) => {
    expect(found(spec, rule, value)).toEqual([]);
  });

  it.each([
    ["1 + 'a' == 'b'", "no such overload"],
    ["1", "it must evaluate to a bool"],
    ["timestamp(self.n) > timestamp('2020-01-01T00:00:00Z')", "it needs typed values"],
    ["self.a__dash__b == 1", "it needs typed values"],
    ["self.n >", "Unexpected"],
    ["quantity('1').isInteger()", "quantity"],
  ])("are refused before they run: %s", (rule, because) => {
    expect(found({ n: { type: "integer" } }, rule, {})[0]).toContain(because);
  });

  it("report the error when their evaluation fails", () => {
    const [message] = found(list("integer"), "self.l[5] == 1", { l: [1] });
    expect(message).toMatch(/^Invalid value: "object": .* evaluating rule: self\.l\[5\] == 1$/);
  });
});
