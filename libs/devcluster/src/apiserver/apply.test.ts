import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { applyConfiguration } from "./apply.ts";
import { type JsonObject, listAt, objectAt, textAt } from "./json.ts";

const apply = (current: JsonObject, manager: string, config: JsonObject, time = "2026-01-01T00:00:00Z"): JsonObject =>
  applyConfiguration({ current, config: { apiVersion: "v1", kind: "ConfigMap", ...config }, manager, time });

describe("server-side apply", () => {
  it("removes what its manager has stopped to name, down to the parts of list elements", () => {
    const first = apply({}, "me", {
      metadata: { name: "a", labels: { x: "1", y: "1" }, finalizers: ["a/a", "b/b"] },
      spec: {
        containers: [
          { name: "one", image: "1", workingDir: "/" },
          { name: "two", image: "2" },
        ],
      },
    });
    const second = apply(first, "me", {
      metadata: { name: "a", labels: { x: "1" }, finalizers: ["b/b"] },
      spec: { containers: [{ name: "one", image: "1" }] },
    });
    expect(objectAt(second, "metadata", "labels")).toEqual({ x: "1" });
    expect(listAt(second, "metadata", "finalizers")).toEqual(["b/b"]);
    expect(listAt(second, "spec", "containers")).toEqual([{ name: "one", image: "1" }]);
  });

  it("keeps what another manager names too, and what nobody applied", () => {
    const start: JsonObject = { data: { manual: "1" } };
    const both = apply(apply(start, "one", { data: { a: "1", b: "1" } }), "two", { data: { b: "1" } });
    expect(objectAt(apply(both, "one", { data: {} }), "data")).toEqual({ manual: "1", b: "1" });
  });

  it("keeps the time of its record while the wish is the same", () => {
    const first = apply({}, "me", { data: { a: "1" } });
    const later = apply(first, "me", { data: { a: "2" } }, "2026-02-02T00:00:00Z");
    expect(textAt(listAt(later, "metadata", "managedFields")[0], "time")).toBe("2026-01-01T00:00:00Z");
  });

  it("ends with exactly what its only manager wants last", () => {
    const data = fc.dictionary(fc.constantFrom("a", "b", "c", "__proto__"), fc.constantFrom("1", "2"));
    fc.assert(
      fc.property(fc.array(data, { minLength: 1 }), (wishes) => {
        const final = wishes.reduce<JsonObject>((object, wish) => apply(object, "me", { data: wish }), {});
        expect(objectAt(final, "data")).toEqual(wishes.at(-1));
      }),
    );
  });
});
