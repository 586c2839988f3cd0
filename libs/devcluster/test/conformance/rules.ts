import { beforeAll, expect, it } from "vitest";
import { textAt } from "../../src/apiserver/json.ts";
import type { Api } from "./api.ts";
import { install } from "./widgets.ts";

const GROUP = "rules.example.com";
const rule = (text: string, more: object = {}): object => ({ rule: text, ...more });
const rules = (...list: object[]): object => ({ "x-kubernetes-validations": list });
const text = { type: "string", maxLength: 50 };
const whole = { type: "integer" };

const SPEC = {
  min: whole,
  max: whole,
  name: { ...text, ...rules(rule("self == oldSelf", { message: "name is immutable" })) },
  tags: {
    type: "array",
    maxItems: 9,
    items: { type: "string", maxLength: 9 },
    ...rules(
      rule("self.all(t, t.startsWith('a'))", { messageExpression: "'tags: ' + self.join(',')" }),
      rule("self.isSorted()"),
      rule("self.size() < 4", { reason: "FieldValueForbidden", message: "too many" }),
    ),
  },
  items: {
    type: "array",
    maxItems: 9,
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["k"],
    items: {
      type: "object",
      required: ["k"],
      properties: { k: text, v: { ...whole, ...rules(rule("self >= oldSelf", { message: "v may not shrink" })) } },
      ...rules(rule("!has(self.v) || self.v > 0")),
    },
  },
  memory: {
    ...text,
    ...rules(
      rule("isQuantity(self) && quantity(self).isGreaterThan(quantity('1Gi'))", { message: "at least a gigabyte" }),
    ),
  },
  url: { ...text, ...rules(rule("isURL(self) && url(self).getScheme() == 'https'")) },
  when: { type: "string", format: "date-time", ...rules(rule("self > timestamp('2020-01-01T00:00:00Z')")) },
  period: { type: "string", format: "duration", ...rules(rule("self > duration('1m')")) },
  port: {
    maxLength: 9,
    "x-kubernetes-int-or-string": true,
    ...rules(rule("type(self) == int ? self > 0 : self.matches('^[a-z]+$')")),
  },
  labels: {
    type: "object",
    maxProperties: 9,
    additionalProperties: { type: "string", maxLength: 9, ...rules(rule("self != ''")) },
    ...rules(rule("!('bad' in self)"), rule("self.all(k, k.size() < 5)")),
  },
  "a-b.c": text,
  optional: { ...text, ...rules(rule("!oldSelf.hasValue() || oldSelf.value() == self", { optionalOldSelf: true })) },
  mode: text,
  nested: { type: "object", properties: { x: whole }, ...rules(rule("self.x == oldSelf.x || self == oldSelf")) },
  label: { ...text, ...rules(rule("!format.dns1123Label().validate(self).hasValue()")) },
  address: { ...text, ...rules(rule("isIP(self) && cidr('10.0.0.0/8').containsIP(self)")) },
};

/** Rules of CEL in the schemas of custom resources. */
export function describeRules(api: () => Api): void {
  let tests: string;
  let made = 0;
  beforeAll(async () => {
    await install(api(), {
      group: GROUP,
      plural: "tests",
      kind: "Test",
      version: { subresources: { status: {} } },
      schema: {
        type: "object",
        properties: {
          spec: {
            type: "object",
            properties: SPEC,
            ...rules(
              rule("!has(self.min) || !has(self.max) || self.min <= self.max", {
                message: "min is above max",
                fieldPath: ".min",
              }),
              rule("!has(self.a__dash__b__dot__c) || self.a__dash__b__dot__c == 'ok'"),
              rule("!(has(self.mode) && self.mode == 'strict') || has(self.name)", {
                message: "strict needs a name",
                reason: "FieldValueRequired",
                fieldPath: ".name",
              }),
            ),
          },
          status: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
        },
        ...rules(rule("self.metadata.name.size() < 8", { message: "name too long" }), rule("self.kind == 'Test'")),
      },
    });
    tests = `/apis/${GROUP}/v1/namespaces/${await api().namespace()}/tests`;
  });
  const test = (spec: object, name = `t-${(made += 1)}`): object => ({
    apiVersion: `${GROUP}/v1`,
    kind: "Test",
    metadata: { name },
    spec,
  });

  it("let pass what they allow", async () => {
    const spec = {
      min: 1,
      max: 2,
      name: "n",
      tags: ["a", "ab"],
      items: [{ k: "x", v: 2 }],
      memory: "2Gi",
      url: "https://a/b",
      when: "2021-01-01T00:00:00Z",
      period: "2m",
      port: 5,
      labels: { a: "b" },
      "a-b.c": "ok",
      optional: "x",
      mode: "strict",
      nested: { x: 1 },
      label: "abc",
      address: "10.1.1.1",
    };
    const answer = await api().post(tests, test(spec));
    expect(answer.code, answer.text).toBe(201);
  });

  it.each<[object, string]>([
    [{ min: 3, max: 2 }, "spec.min: Invalid value: min is above max"],
    [{ tags: ["b"] }, "spec.tags: Invalid value: tags: b"],
    [{ tags: ["ab", "aa"] }, "spec.tags: Invalid value: failed rule: self.isSorted()"],
    [{ tags: ["a", "a", "a", "a"] }, "spec.tags: Forbidden: too many"],
    [{ items: [{ k: "x", v: 0 }] }, "spec.items[0]: Invalid value: failed rule: !has(self.v) || self.v > 0"],
    [{ memory: "1Mi" }, 'spec.memory: Invalid value: "1Mi": at least a gigabyte'],
    [{ memory: "x" }, 'spec.memory: Invalid value: "x": at least a gigabyte'],
    [{ url: "http://x" }, "failed rule: isURL(self) && url(self).getScheme() == 'https'"],
    [{ when: "2019-01-01T00:00:00Z" }, "failed rule: self > timestamp('2020-01-01T00:00:00Z')"],
    [{ period: "1s" }, "spec.period: Invalid value: \"1s\": failed rule: self > duration('1m')"],
    [{ port: 0 }, "spec.port: Invalid value: 0: failed rule: type(self) == int"],
    [{ port: "A" }, 'spec.port: Invalid value: "A": failed rule: type(self) == int'],
    [{ labels: { bad: "x" } }, "spec.labels: Invalid value: failed rule: !('bad' in self)"],
    [{ labels: { a: "" } }, "spec.labels[a]: Invalid value: \"\": failed rule: self != ''"],
    [{ "a-b.c": "no" }, "spec: Invalid value: failed rule: !has(self.a__dash__b__dot__c)"],
    [{ mode: "strict" }, "spec.name: Required value: strict needs a name"],
    [{ label: "A B" }, "failed rule: !format.dns1123Label().validate(self).hasValue()"],
    [{ address: "11.0.0.1" }, "failed rule: isIP(self) && cidr('10.0.0.0/8').containsIP(self)"],
    [
      { min: "x", tags: ["b"] },
      "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
    ],
  ])("refuse %j", async (spec, expected) => {
    const answer = await api().post(tests, test(spec));
    expect(answer.code, answer.text).toBe(422);
    expect(textAt(answer.body, "message")).toContain(expected);
  });

  it("may look at the name of the object", async () => {
    const answer = await api().post(tests, test({}, "much-too-long"));
    expect(textAt(answer.body, "message")).toContain("<nil>: Invalid value: name too long");
  });

  it("may be about changes", async () => {
    const spec = { name: "n", items: [{ k: "x", v: 2 }], optional: "x", nested: { x: 1 } };
    expect((await api().post(tests, test(spec, "changed"))).code).toBe(201);
    const change = async (next: object): Promise<string> =>
      textAt((await api().patch(`${tests}/changed`, "merge", { spec: next })).body, "message");
    expect(await change({ name: "other" })).toContain('spec.name: Invalid value: "other": name is immutable');
    expect(await change({ items: [{ k: "x", v: 1 }] })).toContain(
      "spec.items[0].v: Invalid value: 1: v may not shrink",
    );
    expect(await change({ optional: "y" })).toContain('spec.optional: Invalid value: "y": failed rule');
    expect(await change({ nested: { x: 2 } })).toContain("spec.nested: Invalid value: failed rule");
    expect(await change({ min: 2 })).toBe("");
    expect((await api().patch(`${tests}/changed/status`, "merge", { status: { a: 1 } })).code).toBe(200);
  });
}
