import { describe, expect, it } from "vitest";
import { type CollectStep, type CollectableObject, planCollection } from "./collect.ts";
import type { JsonValue, JsonObject } from "./json.ts";
import { configMaps, namespaces } from "./kinds/core.ts";
import { events } from "./kinds/event.ts";

const NOW = Date.UTC(2026, 0, 1);
const policy = { eventTtlMs: 1000, isKept: (_apiVersion: string, kind: string): boolean => kind !== "Job" };
const map = (name: string, metadata: JsonObject = {}): CollectableObject => ({
  resource: configMaps,
  object: { kind: "ConfigMap", apiVersion: "v1", metadata: { name, namespace: "a", uid: `uid-${name}`, ...metadata } },
});
const owner = (name: string, more: JsonObject = {}): JsonValue => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  name,
  uid: `uid-${name}`,
  ...more,
});
const deleting = (finalizer: string): JsonObject => ({
  deletionTimestamp: "2026-01-01T00:00:00Z",
  finalizers: [finalizer],
});
const plan = (...world: CollectableObject[]): string[] => planCollection(world, policy, NOW).map(describeStep);

function describeStep({ kind: action, because, held }: CollectStep): string {
  return `${action} ${JSON.stringify((held.object["metadata"] as JsonObject)["name"])} ${because}`;
}

describe("collecting", () => {
  it("keeps objects with existing owners, or with an owner of a kind of another server", () => {
    const foreign = { apiVersion: "batch/v1", kind: "Job", name: "j", uid: "j" };
    expect(
      plan(map("a"), map("b", { ownerReferences: [owner("a")] }), map("c", { ownerReferences: [foreign] })),
    ).toEqual([]);
  });

  it("deletes objects that have lost all their owners", () => {
    expect(plan(map("b", { ownerReferences: [owner("a")] }))).toEqual(['delete "b" owners-gone']);
  });

  it("removes the reference to a lost owner from an object with another owner", () => {
    const both = map("c", { ownerReferences: [owner("a"), owner("b")] });
    const steps = planCollection([map("a"), both], policy, NOW);
    expect(steps).toMatchObject([{ kind: "write", held: { object: { metadata: { ownerReferences: [owner("a")] } } } }]);
  });

  it("deletes dependents before an owner that waits for them, and releases it when none holds it", () => {
    const waiting = map("a", deleting("foregroundDeletion"));
    const blocking = map("b", { ownerReferences: [owner("a", { blockOwnerDeletion: true })] });
    expect(plan(waiting, blocking)).toEqual(['delete "b" owner-waits']);
    expect(plan(waiting)).toEqual(['write "a" dependents-done']);
  });

  it("orphans dependents before it releases their owner", () => {
    const orphaning = map("a", deleting("orphan"));
    expect(plan(orphaning, map("b", { ownerReferences: [owner("a")] }))).toEqual(['write "b" owner-orphans']);
    expect(plan(orphaning)).toEqual(['write "a" dependents-done']);
  });

  it("does not delete objects twice that wait for their own finalizers", () => {
    expect(plan(map("b", { ownerReferences: [owner("a")], ...deleting("x/y") }))).toEqual([]);
  });

  it("empties a namespace in deletion, and only then removes it", () => {
    const object = {
      metadata: { name: "a", uid: "uid-ns", deletionTimestamp: "2026-01-01T00:00:00Z" },
      spec: { finalizers: ["kubernetes"] },
    };
    const ending: CollectableObject = { resource: namespaces, object };
    expect(plan(ending, map("b"))).toEqual(['delete "b" namespace-ends']);
    expect(plan(ending, map("b", deleting("x/y")))).toEqual([]);
    expect(plan(ending)).toEqual(['finalize "a" namespace-empty']);
  });

  it("deletes old events", () => {
    const event = (name: string, ageMs: number): CollectableObject => ({
      resource: events,
      object: { metadata: { name, uid: name, creationTimestamp: new Date(NOW - ageMs).toISOString() } },
    });
    expect(plan(event("old", 1000), event("young", 999))).toEqual(['delete "old" event-old']);
  });
});
