import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decideDeletion, isDoneDeleting } from "./deletion.ts";
import { type JsonObject, findNumber, getText } from "./json.ts";
import { configMaps, namespaces } from "./kinds/core.ts";
import { pods } from "./kinds/pod.ts";

const NOW = Date.UTC(2026, 0, 1);
const running = (metadata: JsonObject = {}): JsonObject => ({
  metadata: { uid: "u", resourceVersion: "7", generation: 1, ...metadata },
  spec: { nodeName: "n", terminationGracePeriodSeconds: 30 },
});

describe("a deletion", () => {
  it("removes an object without grace period and finalizers", () => {
    const object = { metadata: { uid: "u" } };
    expect(decideDeletion(configMaps, object, {}, NOW)).toEqual({
      kind: "remove",
      object,
      because: "nothing-to-wait-for",
    });
  });

  it("marks objects with finalizers, in metadata or in the spec of a namespace", () => {
    const held = decideDeletion(configMaps, { metadata: { finalizers: ["a/a"] } }, {}, NOW);
    expect(held).toMatchObject({ kind: "mark", because: "finalizers" });
    const namespace = decideDeletion(namespaces, { metadata: {}, spec: { finalizers: ["kubernetes"] } }, {}, NOW);
    expect(namespace).toMatchObject({ kind: "mark", because: "finalizers" });
  });

  it("refuses another uid or version than required", () => {
    expect(decideDeletion(pods, running(), { uid: "v" }, NOW).kind).toBe("refuse");
    expect(decideDeletion(pods, running(), { revision: "8" }, NOW).kind).toBe("refuse");
    expect(decideDeletion(pods, running(), { uid: "u", revision: "7" }, NOW).kind).toBe("mark");
  });

  it("turns one way for dependents into another while the object waits", () => {
    const foreground = decideDeletion(configMaps, { metadata: {} }, { propagation: "Foreground" }, NOW);
    expect(foreground).toMatchObject({ kind: "mark", object: { metadata: { finalizers: ["foregroundDeletion"] } } });
    const marked = foreground.kind === "mark" ? foreground.object : {};
    const orphan = decideDeletion(configMaps, marked, { propagation: "Orphan" }, NOW);
    expect(orphan).toMatchObject({ kind: "mark", object: { metadata: { finalizers: ["orphan"] } } });
    expect(decideDeletion(configMaps, marked, { propagation: "Background" }, NOW).kind).toBe("remove");
  });

  it("never extends a pod's grace period, and removes the pod once it is over", () => {
    fc.assert(
      fc.property(
        fc.array(fc.option(fc.integer({ min: -2, max: 60 }), { nil: undefined }), { maxLength: 6 }),
        (requests) => {
          let pod = running();
          let endMs = Number.POSITIVE_INFINITY;
          for (const [index, gracePeriodSeconds] of requests.entries()) {
            const step = decideDeletion(pods, pod, { gracePeriodSeconds }, NOW + index * 1000);
            if (step.kind === "remove") {
              expect(gracePeriodSeconds).toBe(0);
              return;
            }
            if (step.kind === "mark") pod = step.object;
            const end = Date.parse(getText(pod, "metadata", "deletionTimestamp"));
            expect(end).toBeLessThanOrEqual(endMs);
            expect(findNumber(pod, "metadata", "generation")).toBe(2);
            endMs = end;
          }
        },
      ),
    );
  });

  it("is done when finalizers and grace period are gone", () => {
    const marked = { deletionTimestamp: "2026-01-01T00:00:00Z" };
    expect(isDoneDeleting({ metadata: marked })).toBe(true);
    expect(isDoneDeleting({ metadata: {} })).toBe(false);
    expect(isDoneDeleting({ metadata: { ...marked, finalizers: ["a/a"] } })).toBe(false);
    expect(isDoneDeleting({ metadata: { ...marked, deletionGracePeriodSeconds: 5 } })).toBe(false);
    expect(isDoneDeleting({ metadata: marked, spec: { finalizers: ["kubernetes"] } })).toBe(false);
  });
});
