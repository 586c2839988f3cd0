import type { JsonObject } from "./json.ts";
import { badRequest, fail, type Failure, forbiddenValue, invalid, type Problem, unsupported } from "./status.ts";
import { type Change, buildRemovedObject } from "./store.ts";

export type WatchEvent = { readonly type: "ADDED" | "MODIFIED" | "DELETED"; readonly object: JsonObject };

/** The event of a change for a watcher with a selector: an object that stops matching is deleted for it, one that starts matching is added. */
export function decideEvent(change: Change, matches: (object: JsonObject) => boolean): WatchEvent | undefined {
  const { before, after, revision } = change;
  const was = before !== undefined && matches(before);
  if (after !== undefined && matches(after)) return { type: was ? "MODIFIED" : "ADDED", object: after };
  return was ? { type: "DELETED", object: buildRemovedObject(before, revision) } : undefined;
}

/** The version parameters in the query of a list or a watch. */
export type VersionQuery = {
  readonly resourceVersion: string;
  readonly match: string;
  readonly sendInitialEvents: boolean | undefined;
  readonly allowBookmarks: boolean;
  /** True if it comes with the token of an earlier page. */
  readonly continues: boolean;
};

export type WatchPlan = {
  /** Begins with an ADDED event for every existing object. */
  readonly initial: boolean;
  /** Sends a bookmark after the initial events. */
  readonly initialBookmark: boolean;
  /** Sends changes after this revision; undefined: from now on. */
  readonly after: number | undefined;
  /** The initial events must show a state of at least this revision. */
  readonly notOlderThan: number;
  readonly because: "everything-first" | "since-revision" | "from-now";
};

/** Plans how a watch begins. Fails as Kubernetes does for contradicting parameters. */
export function planWatch(query: VersionQuery): WatchPlan {
  refuseInvalid(checkWatchOptions(query));
  const { resourceVersion, sendInitialEvents, allowBookmarks } = query;
  const revision = parseRevision(resourceVersion, (message) => ({ code: 500, reason: "", message }));
  const initial = { initial: true, after: undefined, because: "everything-first" } as const;
  if (sendInitialEvents === true) return { ...initial, initialBookmark: allowBookmarks, notOlderThan: revision };
  const later = { initial: false, initialBookmark: false, notOlderThan: 0 };
  if (revision > 0) return { ...later, after: revision, because: "since-revision" };
  if (sendInitialEvents === false) return { ...later, after: undefined, because: "from-now" };
  return { ...initial, initialBookmark: false, notOlderThan: 0 };
}

export type ListPlan =
  | { readonly state: "now"; readonly notOlderThan: number; readonly limited: boolean }
  | { readonly state: "exact"; readonly revision: number };

/** Plans the state that a first page shows. Fails as Kubernetes does for contradicting parameters. */
export function planList(query: VersionQuery): ListPlan {
  refuseInvalid(checkListOptions(query));
  const revision = parseRevision(query.resourceVersion, (message) =>
    badRequest(`invalid resource version: ${message}`),
  );
  if (query.match === "Exact") return { state: "exact", revision };
  return { state: "now", notOlderThan: revision, limited: query.resourceVersion !== "0" };
}

/** Checks the options of a list. */
export function checkListOptions({ resourceVersion, match, sendInitialEvents, continues }: VersionQuery): Problem[] {
  const problems: Problem[] = [];
  const forbid = (field: string, because: string): unknown => problems.push(forbiddenValue(field, because));
  if (match !== "") {
    if (resourceVersion === "") forbid(MATCH, `${MATCH} is forbidden unless resourceVersion is provided`);
    if (continues) forbid(MATCH, FORBIDDEN_WITH_CONTINUE);
    if (match !== "Exact" && match !== "NotOlderThan") {
      problems.push(unsupported(MATCH, match, ["Exact", "NotOlderThan", ""]));
    }
    if (match === "Exact" && resourceVersion === "0") {
      forbid(MATCH, `${MATCH} "exact" is forbidden for resourceVersion "0"`);
    }
  }
  if (sendInitialEvents !== undefined) forbid("sendInitialEvents", "sendInitialEvents is forbidden for list");
  return problems;
}

function checkWatchOptions({ match, sendInitialEvents, continues }: VersionQuery): Problem[] {
  const problems: Problem[] = [];
  const forbid = (because: string): unknown => problems.push(forbiddenValue(MATCH, because));
  if (sendInitialEvents !== undefined && match !== "NotOlderThan") {
    forbid(`sendInitialEvents requires setting ${MATCH} to NotOlderThan`);
  }
  if (match !== "") {
    if (sendInitialEvents === undefined) forbid(`${MATCH} is forbidden for watch unless sendInitialEvents is provided`);
    if (match !== "NotOlderThan") problems.push(unsupported(MATCH, match, ["NotOlderThan"]));
  }
  if (continues) forbid(FORBIDDEN_WITH_CONTINUE);
  return problems;
}

/** Returns 0 for an empty text. */
function parseRevision(text: string, refuse: (message: string) => Failure): number {
  if (text === "") return 0;
  const revision = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (Number.isSafeInteger(revision)) return revision;
  const because = `strconv.ParseUint: parsing ${JSON.stringify(text)}: invalid syntax`;
  return fail(refuse(`resourceVersion: Invalid value: ${JSON.stringify(text)}: ${because}`));
}

/** Reports the revision up to which a client has seen everything. */
export function buildBookmark(kind: string, apiVersion: string, revision: number, endOfInitial: boolean): JsonObject {
  const annotations = endOfInitial ? { annotations: { "k8s.io/initial-events-end": "true" } } : {};
  return { kind, apiVersion, metadata: { resourceVersion: String(revision), ...annotations } };
}

export function getKeyNamespace(key: string): string {
  return key.slice(0, key.indexOf("/"));
}

const MATCH = "resourceVersionMatch";
const FORBIDDEN_WITH_CONTINUE = "resourceVersionMatch is forbidden when continue is provided";

/** Fails with all problems together. */
export function refuseInvalid(problems: readonly Problem[]): void {
  if (problems.length > 0) fail(invalid({ group: "meta.k8s.io", kind: "ListOptions" }, "", problems));
}
