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
    ["self.l.min() == 1 && self.l.max() == 3 && self.l.sum() == 6", list("integer"), { l: [3, 1, 2] }],
    ["self.l.indexOf('b') == 1 && self.l.lastIndexOf('b') == 2", list("string"), { l: ["a", "b", "b"] }],
    ["sets.contains(self.l, ['a']) && sets.intersects(self.l, ['x', 'b'])", list("string"), { l: ["a", "b"] }],
    ["sets.equivalent(self.l, ['b', 'a', 'a'])", list("string"), { l: ["a", "b"] }],
    ["self.t.find('[0-9]+') == '12' && self.t.findAll('[0-9]') == ['1', '2']", { t: { type: "string" } }, { t: "a12" }],
    ["self.t.replace('a', 'b') == 'bb' && self.t.charAt(0) == 'a'", { t: { type: "string" } }, { t: "aa" }],
    ["'%s-%d'.format([self.t, 1]) == 'a-1'", { t: { type: "string" } }, { t: "a" }],
    ["quantity(self.t).add(quantity('500m')).isGreaterThan(quantity('1'))", { t: { type: "string" } }, { t: "600m" }],
    ["quantity('1Gi').compareTo(quantity('1024Mi')) == 0 && !isQuantity('x')", {}, {}],
    ["quantity('50k').asInteger() == 50000 && quantity('1.5').isInteger() == false", {}, {}],
    ["url('https://a.b:8/c?d=e').getHost() == 'a.b:8' && url('https://a/?d=e').getQuery()['d'] == ['e']", {}, {}],
    ["ip('127.0.0.1').isLoopback() && ip('::1').family() == 6", {}, {}],
    ["cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && cidr('10.0.0.0/8').prefixLength() == 8", {}, {}],
    ["format.qualifiedName().validate('a/b/c').hasValue()", {}, {}],
    ["self.?t.orValue('none') == 'none'", { t: { type: "string" } }, {}],
    ["has(self.namespace) && self.namespace == 'x'", { namespace: { type: "string" } }, { namespace: "x" }],
    [
      "self.__namespace__ == 'x' && self.a__dash__b == 1",
      { namespace: { type: "string" }, "a-b": { type: "integer" } },
      { namespace: "x", "a-b": 1 },
    ],
    [
      "self.o == {'a': 1} || self.o.a == 1",
      { o: { type: "object", additionalProperties: { type: "integer" } } },
      { o: { a: 1 } },
    ],
    ["cel.bind(x, self.t, x + x == 'aa')", { t: { type: "string" } }, { t: "a" }],
  ])("know %s", (rule, spec, value) => {
    expect(found(spec, rule, value)).toEqual([]);
  });

  it.each([
    ["self.nope == 1", "compilation failed"],
    ["self.n + 'a' == 'b'", "compilation failed"],
    ["self.n", "cel expression must evaluate to a bool"],
    ["self.n >", "compilation failed"],
  ])("are refused before they run: %s", (rule, because) => {
    expect(found({ n: { type: "integer" } }, rule, {})[0]).toContain(because);
  });

  it("say what went wrong when they break off", () => {
    const [message] = found(list("integer"), "self.l[5] == 1", { l: [1] });
    expect(message).toMatch(/^Invalid value: "object": .* evaluating rule: self\.l\[5\] == 1$/);
  });
});
