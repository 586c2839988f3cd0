import { canOwn } from "./collect.ts";
import { type JsonObject, getList, getText } from "./json.ts";
import { listFinalizers, isDeleting, getNamespace, getName, getUid } from "./metadata.ts";
import type { Change } from "./store.ts";

/** Decides for each change whether the collector can have work; most cannot. A full pass for each of thousands of pods would take all the time. */
export type CollectionTriggers = {
  add(object: JsonObject): void;
  /** Records the change, and returns whether it may matter. */
  note(change: Change): boolean;
};

export function makeCollectionTriggers(): CollectionTriggers {
  /** The namespace of each object. */
  const places = new Map<string, string>();
  /** Number of objects that name an owner. */
  const dependents = new Map<string, number>();
  /** Owners and namespaces in deletion that wait for other objects. */
  const waiting = new Set<string>();

  const count = (object: JsonObject, step: 1 | -1): void => {
    for (const owner of listOwners(object)) {
      const next = (dependents.get(owner) ?? 0) + step;
      if (next === 0) dependents.delete(owner);
      else dependents.set(owner, next);
    }
  };
  const enter = (object: JsonObject): void => {
    places.set(getUid(object), getNamespace(object));
    count(object, 1);
    for (const mark of listMarks(object)) waiting.add(mark);
  };
  const leave = (object: JsonObject): void => {
    places.delete(getUid(object));
    count(object, -1);
    for (const mark of listMarks(object)) waiting.delete(mark);
  };
  const isWaitedFor = (object: JsonObject): boolean =>
    waiting.has(namespaceMark(getNamespace(object))) || listOwners(object).some((owner) => waiting.has(owner));

  const wasWaitedFor = (before: JsonObject | undefined): boolean => before !== undefined && isWaitedFor(before);
  const lacksAnOwner = (object: JsonObject): boolean =>
    listOwners(object).some((owner) => !canOwn(places.get(owner), getNamespace(object)));

  return {
    add: enter,
    note: ({ before, after }) => {
      if (before !== undefined) leave(before);
      if (after !== undefined) enter(after);
      const object = after ?? before;
      if (object === undefined) return false;
      if (isWaitedFor(object)) return true;
      if ((before === undefined || after === undefined) && dependents.has(getUid(object))) return true;
      if (after === undefined) return false;
      // The object was just marked, its finalizers changed, or it stopped waiting and became an owner that keeps its dependents.
      if (listMarks(after).length > 0 || (before !== undefined && listMarks(before).length > 0)) return true;
      // Owners of kinds of another server are never stored here; their dependents are checked once, not at each change.
      return (
        listOwners(after).join() !== listOwners(before ?? {}).join() && (lacksAnOwner(after) || wasWaitedFor(before))
      );
    },
  };
}

function listOwners(object: JsonObject): string[] {
  return getList(object, "metadata", "ownerReferences").map((owner) => getText(owner, "uid"));
}

function listMarks(object: JsonObject): string[] {
  if (!isDeleting(object)) return [];
  if (getText(object, "kind") === "Namespace") return [getUid(object), namespaceMark(getName(object))];
  const waits = listFinalizers(object).some((finalizer) => ["foregroundDeletion", "orphan"].includes(finalizer));
  return waits ? [getUid(object)] : [];
}

/** No uid has this prefix. */
function namespaceMark(name: string): string {
  return `namespace/${name}`;
}
