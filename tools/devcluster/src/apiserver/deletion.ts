import { type JsonObject, findNumber, setAt, getText, getTexts } from "./json.ts";
import { listFinalizers, isDeleting, nextGeneration, getRevision, formatTimestamp, getUid } from "./metadata.ts";
import type { Resource } from "./resource.ts";

export type Propagation = "Background" | "Foreground" | "Orphan";

export type DeleteOptions = {
  readonly gracePeriodSeconds?: number | undefined;
  readonly propagation?: Propagation | undefined;
  readonly uid?: string | undefined;
  readonly revision?: string | undefined;
};

/** The effect of a deletion on an object now. */
export type Deletion =
  | { readonly kind: "refuse"; readonly because: string }
  /** The object is being deleted already, and this request does not make it sooner. */
  | { readonly kind: "nothing"; readonly because: "deletion-pending" }
  /** The object stays for its grace period or its finalizers. */
  | { readonly kind: "mark"; readonly object: JsonObject; readonly because: "grace-period" | "finalizers" }
  /** The last state that watchers see comes with it. */
  | { readonly kind: "remove"; readonly object: JsonObject; readonly because: "nothing-to-wait-for" };

const FINALIZER: Readonly<Record<Propagation, string | undefined>> = {
  Background: undefined,
  Foreground: "foregroundDeletion",
  Orphan: "orphan",
};

/** Decides a deletion: preconditions, grace, finalizers, in Kubernetes' order. */
export function decideDeletion(
  resource: Resource,
  object: JsonObject,
  options: DeleteOptions,
  nowMs: number,
): Deletion {
  const refused = unmet(object, options);
  if (refused !== undefined) return { kind: "refuse", because: refused };
  const finalized = withPropagation(object, options.propagation);
  const blocked = listFinalizers(finalized).length > 0 || getTexts(object, "spec", "finalizers").length > 0;
  const graceful = resource.gracePeriodSeconds?.(object, options.gracePeriodSeconds);
  if (graceful === undefined) return decidePlain(finalized, object, blocked, nowMs);

  const marked = markGraceful(finalized, graceful, nowMs);
  const period = findNumber(marked, "metadata", "deletionGracePeriodSeconds") ?? 0;
  if (period > 0 || blocked) {
    if (marked === object) return { kind: "nothing", because: "deletion-pending" };
    return { kind: "mark", object: marked, because: period > 0 ? "grace-period" : "finalizers" };
  }
  return { kind: "remove", object: marked, because: "nothing-to-wait-for" };
}

/** Returns whether this change completes the deletion of a marked object: it has no finalizers and no grace period. */
export function isDoneDeleting(object: JsonObject): boolean {
  return (
    isDeleting(object) &&
    listFinalizers(object).length === 0 &&
    getTexts(object, "spec", "finalizers").length === 0 &&
    (findNumber(object, "metadata", "deletionGracePeriodSeconds") ?? 0) === 0
  );
}

function unmet(object: JsonObject, { uid, revision }: DeleteOptions): string | undefined {
  if (uid !== undefined && uid !== getUid(object)) {
    return `the UID in the precondition (${uid}) does not match the UID in record (${getUid(object)}). The object might have been deleted and then recreated`;
  }
  if (revision !== undefined && revision !== getRevision(object)) {
    return `the ResourceVersion in the precondition (${revision}) does not match the ResourceVersion in record (${getRevision(object)}). The object might have been modified`;
  }
  return undefined;
}

/** A later request may change the propagation; one without a propagation keeps it. */
function withPropagation(object: JsonObject, propagation: Propagation | undefined): JsonObject {
  if (propagation === undefined) return object;
  const wanted = FINALIZER[propagation];
  const current = listFinalizers(object);
  const others = current.filter((finalizer) => !Object.values(FINALIZER).includes(finalizer));
  const finalizers = wanted === undefined ? others : [...others, wanted];
  if (finalizers.join() === current.join()) return object;
  return setAt(object, ["metadata", "finalizers"], finalizers.length === 0 ? undefined : finalizers);
}

function decidePlain(finalized: JsonObject, object: JsonObject, blocked: boolean, nowMs: number): Deletion {
  if (!blocked) return { kind: "remove", object: finalized, because: "nothing-to-wait-for" };
  if (isDeleting(finalized)) {
    if (finalized === object) return { kind: "nothing", because: "deletion-pending" };
    return { kind: "mark", object: finalized, because: "finalizers" };
  }
  return { kind: "mark", object: mark(finalized, 0, nowMs), because: "finalizers" };
}

/** A running grace period may only be shortened. */
function markGraceful(object: JsonObject, seconds: number, nowMs: number): JsonObject {
  if (!isDeleting(object)) return mark(object, seconds, nowMs);
  const current = findNumber(object, "metadata", "deletionGracePeriodSeconds") ?? 0;
  if (seconds >= current) return object;
  const endMs = Date.parse(getText(object, "metadata", "deletionTimestamp"));
  const shorter = setAt(object, ["metadata", "deletionTimestamp"], formatTimestamp(endMs - (current - seconds) * 1000));
  return setAt(shorter, ["metadata", "deletionGracePeriodSeconds"], seconds);
}

function mark(object: JsonObject, seconds: number, nowMs: number): JsonObject {
  const timed = setAt(object, ["metadata", "deletionTimestamp"], formatTimestamp(nowMs + seconds * 1000));
  return nextGeneration(setAt(timed, ["metadata", "deletionGracePeriodSeconds"], seconds));
}
