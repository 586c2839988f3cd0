import { beforeAll, expect, it } from "vitest";
import { getText } from "../../src/apiserver/json.ts";
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
    ...rules(rule("self.all(t, t.startsWith('a'))"), rule("self.size() < 4", { message: "too many" })),
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
  mode: text,
  nested: { type: "object", properties: { x: whole }, ...rules(rule("self.x == oldSelf.x || self == oldSelf")) },
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
              rule("!(has(self.mode) && self.mode == 'strict') || has(self.name)", {
                message: "strict needs a name",
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

  it("accept valid objects", async () => {
    const spec = {
      min: 1,
      max: 2,
      name: "n",
      tags: ["a", "ab"],
      items: [{ k: "x", v: 2 }],
      port: 5,
      labels: { a: "b" },
      mode: "strict",
      nested: { x: 1 },
    };
    const answer = await api().post(tests, test(spec));
    expect(answer.code, answer.text).toBe(201);
  });

  it.each<[object, string]>([
    [{ min: 3, max: 2 }, "spec.min: Invalid value: min is above max"],
    [{ tags: ["b"] }, "spec.tags: Invalid value: failed rule: self.all(t, t.startsWith('a'))"],
    [{ tags: ["a", "a", "a", "a"] }, "spec.tags: Invalid value: too many"],
    [{ items: [{ k: "x", v: 0 }] }, "spec.items[0]: Invalid value: failed rule: !has(self.v) || self.v > 0"],
    [{ port: 0 }, "spec.port: Invalid value: 0: failed rule: type(self) == int"],
    [{ port: "A" }, 'spec.port: Invalid value: "A": failed rule: type(self) == int'],
    [{ labels: { bad: "x" } }, "spec.labels: Invalid value: failed rule: !('bad' in self)"],
    [{ labels: { a: "" } }, "spec.labels[a]: Invalid value: \"\": failed rule: self != ''"],
    [{ mode: "strict" }, "spec.name: Invalid value: strict needs a name"],
    [
      { min: "x", tags: ["b"] },
      "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
    ],
  ])("refuse %j", async (spec, expected) => {
    const answer = await api().post(tests, test(spec));
    expect(answer.code, answer.text).toBe(422);
    expect(getText(answer.body, "message")).toContain(expected);
  });

  it("may refer to the name of the object", async () => {
    const answer = await api().post(tests, test({}, "much-too-long"));
    expect(getText(answer.body, "message")).toContain("<nil>: Invalid value: name too long");
  });

  it("may concern changes", async () => {
    const spec = { name: "n", items: [{ k: "x", v: 2 }], nested: { x: 1 } };
    expect((await api().post(tests, test(spec, "changed"))).code).toBe(201);
    const change = async (next: object): Promise<string> =>
      getText((await api().patch(`${tests}/changed`, "merge", { spec: next })).body, "message");
    expect(await change({ name: "other" })).toContain('spec.name: Invalid value: "other": name is immutable');
    expect(await change({ items: [{ k: "x", v: 1 }] })).toContain(
      "spec.items[0].v: Invalid value: 1: v may not shrink",
    );
    expect(await change({ nested: { x: 2 } })).toContain("spec.nested: Invalid value: failed rule");
    expect(await change({ min: 2 })).toBe("");
    expect((await api().patch(`${tests}/changed/status`, "merge", { status: { a: 1 } })).code).toBe(200);
  });
}
