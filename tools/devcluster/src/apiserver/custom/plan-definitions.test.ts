import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type JsonObject, getText } from "../json.ts";
import { CLEANUP } from "./definition-resource.ts";
import { isTrue, planDefinitions } from "./plan-definitions.ts";

const TIME = "2026-01-01T00:00:00Z";

function definition(plural: string, kind: string, more: JsonObject = {}): JsonObject {
  return {
    metadata: { name: `${plural}.g.x`, uid: plural, ...more },
    spec: {
      group: "g.x",
      names: { plural, singular: kind.toLowerCase(), kind, listKind: `${kind}List` },
      versions: [{ name: "v1", served: true, storage: true }],
    },
    status: { conditions: null, acceptedNames: { plural: "", kind: "" }, storedVersions: ["v1"] },
  };
}

/** Executes plans until nothing remains to do. */
function settle(definitions: readonly JsonObject[]): JsonObject[] {
  const world = new Map(definitions.map((one) => [getText(one, "metadata", "uid"), one]));
  for (const step of planDefinitions(definitions, () => 0, TIME)) {
    if (step.kind === "report") world.set(getText(step.definition, "metadata", "uid"), step.definition);
  }
  return [...world.values()];
}

const ending = (finalizers: readonly string[]): JsonObject => ({ deletionTimestamp: TIME, finalizers });

describe("planning definitions", () => {
  it("assigns a kind to one definition only, and then plans nothing", () => {
    const kinds = fc.uniqueArray(fc.tuple(fc.constantFrom("as", "bs", "cs", "ds"), fc.constantFrom("A", "B")), {
      selector: ([plural]) => plural,
    });
    fc.assert(
      fc.property(kinds, (pairs) => {
        const world = settle(pairs.map(([plural, kind]) => definition(plural, kind)));
        expect(planDefinitions(world, () => 0, "2027-01-01T00:00:00Z")).toEqual([]);
        const served = world
          .filter((one) => isTrue(one, "Established"))
          .map((one) => getText(one, "spec", "names", "kind"));
        expect(new Set(served).size).toBe(served.length);
        expect(new Set(served)).toEqual(new Set(pairs.map(([, kind]) => kind)));
      }),
    );
  });

  it("frees a kind with the definition that had it", () => {
    const [, second] = settle([definition("a", "A"), definition("b", "A")]);
    expect(second !== undefined && isTrue(second, "Established")).toBe(false);
    const [alone] = settle(second === undefined ? [] : [second]);
    expect(alone !== undefined && isTrue(alone, "Established")).toBe(true);
  });

  it("deletes the objects of a definition in deletion, and then removes the definition", () => {
    const one = definition("a", "A", ending([CLEANUP, "x/y"]));
    const busy = planDefinitions([one], () => 2, TIME);
    expect(busy.map((step) => [step.kind, step.because])).toEqual([
      ["report", "objects-left"],
      ["delete-objects", "definition-ends"],
    ]);
    const [done] = planDefinitions([one], () => 0, TIME);
    expect(done).toMatchObject({ kind: "release", definition: { metadata: { finalizers: ["x/y"] } } });
  });

  it("keeps a definition with foreign finalizers", () => {
    expect(planDefinitions([definition("a", "A", ending(["x/y"]))], () => 0, TIME)).toEqual([]);
  });
});
