import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type JsonObject, getObject } from "./json.ts";
import { definitions } from "./definitions.ts";
import { applyStrategicMerge as merge } from "./strategic-merge.ts";

const CORE = "io.k8s.api.core.v1";
const strategicMerge = (target: JsonObject, patch: JsonObject, kind = "Pod"): JsonObject =>
  merge(target, patch, getObject(definitions(), `${CORE}.${kind}`));

const named = (...names: string[]): JsonObject[] => names.map((name) => ({ name, image: `${name}:1` }));

describe("a strategic merge patch", () => {
  it.each<[string, JsonObject, JsonObject, JsonObject]>([
    ["merges maps", { a: { b: "1" } }, { a: { c: "2" } }, { a: { b: "1", c: "2" } }],
    ["removes with null", { a: { b: "1", c: "2" } }, { a: { b: null } }, { a: { c: "2" } }],
    ["removes a list with null", { spec: { containers: named("a") } }, { spec: { containers: null } }, { spec: {} }],
    [
      "appends a container of another name",
      { spec: { containers: named("a") } },
      { spec: { containers: named("b") } },
      { spec: { containers: named("a", "b") } },
    ],
    [
      "changes a container of the same name",
      { spec: { containers: named("a", "b") } },
      { spec: { containers: [{ name: "a", image: "new" }] } },
      { spec: { containers: [{ name: "a", image: "new" }, ...named("b")] } },
    ],
    [
      "removes a container that is marked",
      { spec: { containers: named("a", "b") } },
      { spec: { containers: [{ name: "a", $patch: "delete" }] } },
      { spec: { containers: named("b") } },
    ],
    [
      "replaces a list that is marked",
      { spec: { containers: named("a", "b") } },
      { spec: { containers: [{ $patch: "replace" }, ...named("c")] } },
      { spec: { containers: named("c") } },
    ],
    [
      "orders by the list that kubectl sends",
      { spec: { containers: named("a", "b") } },
      {
        spec: { containers: named("c"), "$setElementOrder/containers": [{ name: "c" }, { name: "b" }, { name: "a" }] },
      },
      { spec: { containers: named("c", "b", "a") } },
    ],
    [
      "merges the ports of a container by number, those of a service by port",
      {
        spec: {
          containers: [{ name: "a", ports: [{ containerPort: 1, name: "x" }] }],
          ports: [{ port: 1, name: "x" }],
        },
      },
      {
        spec: {
          containers: [{ name: "a", ports: [{ containerPort: 1, name: "y" }] }],
          ports: [{ port: 1, name: "y" }],
        },
      },
      {
        spec: {
          containers: [{ name: "a", ports: [{ containerPort: 1, name: "y" }] }],
          ports: [{ port: 1, name: "y" }],
        },
      },
    ],
    [
      "keeps only what is named",
      { spec: { volumes: [{ name: "v", emptyDir: {} }] } },
      { spec: { volumes: [{ name: "v", $retainKeys: ["name", "hostPath"], hostPath: { path: "/" } }] } },
      { spec: { volumes: [{ name: "v", hostPath: { path: "/" } }] } },
    ],
    [
      "replaces lists that have no key",
      { spec: { taints: [{ key: "a" }] } },
      { spec: { taints: [{ key: "b" }] } },
      { spec: { taints: [{ key: "b" }] } },
    ],
    [
      "treats the finalizers of metadata as a set, those of a namespace's spec as one value",
      { metadata: { finalizers: ["a"] }, spec: { finalizers: ["a"] } },
      { metadata: { finalizers: ["b"] }, spec: { finalizers: ["b"] } },
      { metadata: { finalizers: ["a", "b"] }, spec: { finalizers: ["b"] } },
    ],
    ["empties a map that is marked", { data: { a: "1" } }, { data: { $patch: "delete" } }, { data: {} }],
  ])("%s", (_title, target, patch, expected) => {
    expect(strategicMerge(target, patch)).toEqual(expected);
  });

  it.each<[string, JsonObject]>([
    ["an element without its key", { spec: { containers: [{ image: "a" }] } }],
    ["an element that is no object", { spec: { containers: ["a"] } }],
    ["a directive that does not exist", { spec: { $patch: "shuffle" } }],
  ])("is refused for %s", (_title, patch) => {
    expect(() => strategicMerge({ spec: { containers: named("a") } }, patch)).toThrow();
  });

  it("changes nothing when it is applied again, and keeps each name once", () => {
    const container = fc.record({ name: fc.constantFrom("a", "b", "c"), image: fc.constantFrom("1", "2") });
    const containers = fc.uniqueArray(container, { selector: ({ name }) => name });
    const object = fc.record({
      spec: fc.record({ containers }),
      data: fc.dictionary(fc.constantFrom("x", "y"), fc.string()),
    });
    fc.assert(
      fc.property(object, object, (target, patch) => {
        const once = strategicMerge(target, patch);
        expect(strategicMerge(once, patch)).toEqual(once);
        const names = [...target.spec.containers, ...patch.spec.containers].map(({ name }) => name);
        expect(once).toMatchObject({ spec: { containers: [...new Set(names)].map((name) => ({ name })) } });
      }),
    );
  });
});
