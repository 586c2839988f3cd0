import { at, type JsonValue, type JsonObject, getList, setAt, getText, getTexts } from "./json.ts";
import { listFinalizers, isDeleting, getNamespace, getName, getUid } from "./metadata.ts";
import type { Resource } from "./resource.ts";

/** An object with its resource. */
export type CollectableObject = { readonly resource: Resource; readonly object: JsonObject };

/** A deletion or a change that follows from another deletion. */
export type CollectStep =
  | {
      readonly kind: "delete";
      readonly held: CollectableObject;
      readonly because: "owners-gone" | "owner-waits" | "namespace-ends" | "event-old";
    }
  | {
      readonly kind: "write";
      readonly held: CollectableObject;
      readonly because: "owner-orphans" | "one-owner-gone" | "dependents-done";
    }
  | { readonly kind: "finalize"; readonly held: CollectableObject; readonly because: "namespace-empty" };

const FOREGROUND = "foregroundDeletion";
const ORPHAN = "orphan";

export type CollectPolicy = {
  readonly eventTtlMs: number;
  /** Returns whether this server stores the kind, so that a missing object does not exist. */
  readonly isKept: (apiVersion: string, kind: string) => boolean;
};

/** Plans one pass over all objects: dependents of removed owners, namespaces in deletion, expired events. */
export function planCollection(
  world: readonly CollectableObject[],
  policy: CollectPolicy,
  nowMs: number,
): CollectStep[] {
  const byUid = new Map(world.map((held) => [getUid(held.object), held]));
  const steps: CollectStep[] = [];
  for (const held of world) {
    const step = planDependent(held, byUid, policy) ?? planEvent(held, policy, nowMs);
    if (step !== undefined) steps.push(step);
  }
  return [...steps, ...planOwners(world), ...planNamespaces(world)];
}

function planDependent(
  held: CollectableObject,
  byUid: ReadonlyMap<string, CollectableObject>,
  { isKept }: CollectPolicy,
): CollectStep | undefined {
  const { object } = held;
  const owners = getList(object, "metadata", "ownerReferences");
  if (owners.length === 0) return undefined;
  // An owner of a kind that another server stores may exist.
  const isKnown = (owner: JsonValue): boolean => isKept(getText(owner, "apiVersion"), getText(owner, "kind"));
  const ownerOf = (owner: JsonValue): JsonObject | undefined => {
    const found = byUid.get(getText(owner, "uid"))?.object;
    return found !== undefined && canOwn(getNamespace(found), getNamespace(object)) ? found : undefined;
  };
  const isGone = (owner: JsonValue): boolean => isKnown(owner) && ownerOf(owner) === undefined;
  const isWaiting = (owner: JsonValue): boolean => isHeldBy(ownerOf(owner), FOREGROUND);
  const isOrphaning = (owner: JsonValue): boolean => isHeldBy(ownerOf(owner), ORPHAN);

  const orphaned = owners.filter((owner) => !isOrphaning(owner));
  if (orphaned.length < owners.length)
    return { kind: "write", held: withOwners(held, orphaned), because: "owner-orphans" };
  if (isDeleting(object) && !owners.some(isGone)) return undefined;
  const solid = owners.filter((owner) => !isGone(owner) && !isWaiting(owner));
  if (solid.length === 0) {
    if (isDeleting(object)) return undefined;
    return { kind: "delete", held, because: owners.every(isGone) ? "owners-gone" : "owner-waits" };
  }
  if (!owners.some(isGone)) return undefined;
  return {
    kind: "write",
    held: withOwners(
      held,
      owners.filter((owner) => !isGone(owner)),
    ),
    because: "one-owner-gone",
  };
}

/** An owner is cluster-scoped or in the same namespace; one of another namespace counts as missing. */
export function canOwn(ownerNamespace: string | undefined, namespace: string): boolean {
  return ownerNamespace === "" || ownerNamespace === namespace;
}

function planEvent(
  { resource, object }: CollectableObject,
  { eventTtlMs }: CollectPolicy,
  nowMs: number,
): CollectStep | undefined {
  if (resource.kind !== "Event") return undefined;
  const seenMs = Date.parse(getText(object, "lastTimestamp") || getText(object, "metadata", "creationTimestamp"));
  const createdMs = Date.parse(getText(object, "metadata", "creationTimestamp"));
  if (nowMs - Math.max(seenMs, createdMs) < eventTtlMs) return undefined;
  return { kind: "delete", held: { resource, object }, because: "event-old" };
}

/** Plans owners in deletion whose dependents no longer block them. */
function planOwners(world: readonly CollectableObject[]): CollectStep[] {
  const waiting = world.filter(({ object }) => isHeldBy(object, FOREGROUND) || isHeldBy(object, ORPHAN));
  if (waiting.length === 0) return [];
  const references = world.flatMap(({ object }) => getList(object, "metadata", "ownerReferences"));
  const blocked = new Set(
    references.filter((one) => at(one, "blockOwnerDeletion") === true).map((one) => getText(one, "uid")),
  );
  const owning = new Set(references.map((one) => getText(one, "uid")));
  return waiting.flatMap(({ resource, object }): CollectStep[] => {
    const uid = getUid(object);
    const done = listFinalizers(object).filter((finalizer) => {
      if (finalizer === FOREGROUND) return !blocked.has(uid);
      return finalizer === ORPHAN && !owning.has(uid);
    });
    if (done.length === 0) return [];
    const left = listFinalizers(object).filter((finalizer) => !done.includes(finalizer));
    const released = setAt(object, ["metadata", "finalizers"], left.length === 0 ? undefined : left);
    return [{ kind: "write", held: { resource, object: released }, because: "dependents-done" }];
  });
}

function planNamespaces(world: readonly CollectableObject[]): CollectStep[] {
  const ending = world.filter(({ resource, object }) => resource.kind === "Namespace" && isDeleting(object));
  return ending.flatMap(({ resource, object }): CollectStep[] => {
    const content = world.filter((held) => held.resource.namespaced && getNamespace(held.object) === getName(object));
    const left = content.filter((held) => !isDeleting(held.object));
    if (content.length > 0) return left.map((held) => ({ kind: "delete", held, because: "namespace-ends" }));
    if (!getTexts(object, "spec", "finalizers").includes("kubernetes")) return [];
    const finalizers = getTexts(object, "spec", "finalizers").filter((finalizer) => finalizer !== "kubernetes");
    const released = setAt(object, ["spec", "finalizers"], finalizers);
    return [{ kind: "finalize", held: { resource, object: released }, because: "namespace-empty" }];
  });
}

function isHeldBy(object: JsonObject | undefined, finalizer: string): boolean {
  return object !== undefined && isDeleting(object) && listFinalizers(object).includes(finalizer);
}

function withOwners({ resource, object }: CollectableObject, owners: readonly JsonValue[]): CollectableObject {
  return { resource, object: setAt(object, ["metadata", "ownerReferences"], owners.length === 0 ? undefined : owners) };
}
