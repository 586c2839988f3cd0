import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type JsonObject, listAt, objectAt, textAt } from "../json.ts";
import { configMaps } from "../kinds/core.ts";
import { pods } from "../kinds/pod.ts";
import type { Resource } from "../resource.ts";
import { difference, type FieldSet, fromFieldsV1, intersection, isEmpty, toFieldsV1, union } from "./field-set.ts";
import { applyConfig, recordUpdate } from "./managed-fields.ts";

const TIME = "2026-01-01T00:00:00Z";
const writer = (
  manager: string,
  time = TIME,
): { manager: string; subresource: string; time: string; force: boolean } => ({
  manager,
  subresource: "",
  time,
  force: true,
});

function apply(resource: Resource, current: JsonObject | undefined, manager: string, config: JsonObject): JsonObject {
  const whole = { apiVersion: "v1", kind: resource.kind, ...config };
  const applied = applyConfig(resource, current, whole, writer(manager));
  if ("refused" in applied) throw new Error(applied.refused.message);
  return applied.object;
}

const owners = (object: JsonObject): string[] =>
  listAt(object, "metadata", "managedFields").map((entry) => textAt(entry, "manager"));

describe("server-side apply", () => {
  it("removes what its manager has stopped to name, down to the parts of list elements", () => {
    const first = apply(pods, undefined, "me", {
      metadata: { name: "a", labels: { x: "1", y: "1" }, finalizers: ["a/a", "b/b"] },
      spec: {
        containers: [
          { name: "one", image: "1", workingDir: "/" },
          { name: "two", image: "2" },
        ],
      },
    });
    const second = apply(pods, first, "me", {
      metadata: { name: "a", labels: { x: "1" }, finalizers: ["b/b"] },
      spec: { containers: [{ name: "one", image: "1" }] },
    });
    expect(objectAt(second, "metadata", "labels")).toEqual({ x: "1" });
    expect(listAt(second, "metadata", "finalizers")).toEqual(["b/b"]);
    expect(listAt(second, "spec", "containers")).toEqual([{ name: "one", image: "1" }]);
  });

  it("keeps what another manager names too, and what nobody applied", () => {
    const start: JsonObject = { data: { manual: "1" } };
    const both = apply(configMaps, apply(configMaps, start, "one", { data: { a: "1", b: "1" } }), "two", {
      data: { b: "1" },
    });
    expect(objectAt(apply(configMaps, both, "one", { data: {} }), "data")).toEqual({ manual: "1", b: "1" });
    expect(owners(apply(configMaps, start, "one", { data: { a: "1" } }))).toEqual(["one", "before-first-apply"]);
  });

  it("changes nothing when the same is applied again later", () => {
    const first = apply(configMaps, undefined, "me", { data: { a: "1" } });
    const config = { apiVersion: "v1", kind: "ConfigMap", data: { a: "1" } };
    const again = applyConfig(configMaps, first, config, writer("me", "2026-02-02T00:00:00Z"));
    expect(again).toEqual({ object: first });
  });

  it("ends with exactly what its only manager wants last", () => {
    const data = fc.dictionary(fc.constantFrom("a", "b", "c", "__proto__"), fc.constantFrom("1", "2"));
    fc.assert(
      fc.property(fc.array(data, { minLength: 1 }), (wishes) => {
        const final = wishes.reduce<JsonObject | undefined>(
          (object, wish) => apply(configMaps, object, "me", { data: wish }),
          undefined,
        );
        expect(objectAt(final, "data")).toEqual(wishes.at(-1));
      }),
    );
  });

  it("never leaves a field to two managers who want different values of it", () => {
    const wish = fc.dictionary(fc.constantFrom("a", "b"), fc.constantFrom("1", "2"), { minKeys: 1 });
    const step = fc.record({ manager: fc.constantFrom("one", "two", "three"), wish });
    fc.assert(
      fc.property(fc.array(step, { minLength: 1 }), (steps) => {
        const last = new Map<string, Record<string, string>>();
        let object: JsonObject | undefined;
        for (const { manager, wish: data } of steps) {
          object = apply(configMaps, object, manager, { data });
          last.set(manager, data);
        }
        for (const entry of listAt(object, "metadata", "managedFields")) {
          const wanted = last.get(textAt(entry, "manager")) ?? {};
          for (const key of Object.keys(objectAt(entry, "fieldsV1", "f:data"))) {
            expect(textAt(object, "data", key.slice(2))).toBe(wanted[key.slice(2)]);
          }
        }
      }),
    );
  });
});

describe("the record of an update", () => {
  it("gives what changed to who changed it, and takes it from the others", () => {
    const first = apply(configMaps, undefined, "one", { metadata: { name: "a" }, data: { a: "1", b: "1" } });
    const changed = recordUpdate(configMaps, first, { ...first, data: { a: "2", b: "1" } }, writer("two"));
    expect(listAt(changed, "metadata", "managedFields")).toMatchObject([
      { manager: "one", operation: "Apply", fieldsV1: { "f:data": { "f:b": {} } } },
      { manager: "two", operation: "Update", fieldsV1: { "f:data": { "f:a": {} } } },
    ]);
  });

  it("is forgotten when it is emptied on purpose", () => {
    const first = apply(configMaps, undefined, "one", { metadata: { name: "a" }, data: { a: "1" } });
    const metadata = { name: "a", managedFields: [] };
    expect(owners(recordUpdate(configMaps, first, { ...first, metadata }, writer("two")))).toEqual([]);
  });
});

describe("sets of fields", () => {
  const tree = fc.letrec<{ node: JsonObject }>((tie) => ({
    node: fc.dictionary(
      fc.constantFrom("f:a", "f:b", 'k:{"n":"x"}', "."),
      fc.oneof({ depthSize: "small" }, fc.constant({}), tie("node")),
      {
        maxKeys: 3,
      },
    ),
  })).node;
  const set: fc.Arbitrary<FieldSet> = tree.map((json) => fromFieldsV1(json));
  const text = (one: FieldSet): string => JSON.stringify(toFieldsV1(one));

  it("come back from their written form", () => {
    fc.assert(
      fc.property(set, (one) => {
        expect(text(fromFieldsV1(toFieldsV1(one)))).toBe(text(one));
      }),
    );
  });

  it("are what they share and what they do not", () => {
    fc.assert(
      fc.property(set, set, (a, b) => {
        expect(text(union(difference(a, b), intersection(a, b)))).toBe(text(a));
        expect(isEmpty(intersection(difference(a, b), b))).toBe(true);
        expect(text(union(a, b))).toBe(text(union(b, a)));
      }),
    );
  });
});
