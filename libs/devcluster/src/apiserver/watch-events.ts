import type { JsonObject } from "./json.ts";
import { badRequest, fail, forbiddenValue, invalid, unsupported } from "./status.ts";
import { type Change, removedObject } from "./store.ts";

export type WatchEvent = { readonly type: "ADDED" | "MODIFIED" | "DELETED"; readonly object: JsonObject };

/** What a watcher that sees only some objects is told of a change: an object that moves out of its sight is deleted for it, one that moves in is added. */
export function decideEvent(change: Change, matches: (object: JsonObject) => boolean): WatchEvent | undefined {
  const { before, after, revision } = change;
  const was = before !== undefined && matches(before);
  if (after !== undefined && matches(after)) return { type: was ? "MODIFIED" : "ADDED", object: after };
  return was ? { type: "DELETED", object: removedObject(before, revision) } : undefined;
}

/** What the query of a list or a watch says about versions. */
export type VersionQuery = {
  readonly resourceVersion: string;
  readonly match: string;
  readonly sendInitialEvents: boolean | undefined;
  readonly allowBookmarks: boolean;
};

export type WatchPlan = {
  /** Begin with an ADDED event for everything there is. */
  readonly initial: boolean;
  /** Say with a bookmark where the initial events end. */
  readonly initialBookmark: boolean;
  /** Then changes after this revision; undefined: after now. */
  readonly after: number | undefined;
  readonly because: "everything-first" | "since-revision" | "from-now";
};

/** How a watch begins. Fails as Kubernetes does for parameters that contradict each other. */
export function planWatch(query: VersionQuery): WatchPlan {
  const { resourceVersion, match, sendInitialEvents, allowBookmarks } = query;
  if (sendInitialEvents === undefined && match !== "") {
    refuse("resourceVersionMatch", "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided");
  }
  if (sendInitialEvents !== undefined && match !== "NotOlderThan") {
    refuse("resourceVersionMatch", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
  }
  const revision = parseRevision(resourceVersion);
  if (sendInitialEvents === true) {
    return { initial: true, initialBookmark: allowBookmarks, after: undefined, because: "everything-first" };
  }
  if (revision > 0) return { initial: false, initialBookmark: false, after: revision, because: "since-revision" };
  if (sendInitialEvents === false)
    return { initial: false, initialBookmark: false, after: undefined, because: "from-now" };
  return { initial: true, initialBookmark: false, after: undefined, because: "everything-first" };
}

export type ListPlan =
  | { readonly state: "now"; readonly notOlderThan: number; readonly limited: boolean }
  | { readonly state: "exact"; readonly revision: number };

/** Which state a first page shows. */
export function planList({ resourceVersion, match, sendInitialEvents }: VersionQuery): ListPlan {
  if (sendInitialEvents !== undefined) refuse("sendInitialEvents", "sendInitialEvents is forbidden for list");
  const revision = parseRevision(resourceVersion);
  if (match === "") return { state: "now", notOlderThan: revision, limited: resourceVersion !== "0" };
  if (resourceVersion === "") {
    refuse("resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided");
  }
  if (match === "NotOlderThan") return { state: "now", notOlderThan: revision, limited: resourceVersion !== "0" };
  if (match !== "Exact") {
    fail(invalid(LIST_OPTIONS, "", [unsupported("resourceVersionMatch", match, ["Exact", "NotOlderThan", ""])]));
  }
  if (revision === 0) {
    refuse("resourceVersionMatch", 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"');
  }
  return { state: "exact", revision };
}

/** 0 for an empty text. */
export function parseRevision(text: string): number {
  if (text === "") return 0;
  const revision = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (Number.isSafeInteger(revision)) return revision;
  const because = `strconv.ParseUint: parsing ${JSON.stringify(text)}: invalid syntax`;
  return fail(badRequest(`resourceVersion: Invalid value: ${JSON.stringify(text)}: ${because}`));
}

/** Tells a client how far it has seen everything. */
export function buildBookmark(kind: string, apiVersion: string, revision: number, endOfInitial: boolean): JsonObject {
  const annotations = endOfInitial ? { annotations: { "k8s.io/initial-events-end": "true" } } : {};
  return { kind, apiVersion, metadata: { resourceVersion: String(revision), ...annotations } };
}

export function keyNamespace(key: string): string {
  return key.slice(0, key.indexOf("/"));
}

const LIST_OPTIONS = { group: "meta.k8s.io", kind: "ListOptions" };

function refuse(field: string, because: string): never {
  return fail(invalid(LIST_OPTIONS, "", [forbiddenValue(field, because)]));
}
