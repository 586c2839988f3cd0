import { type LabelSelector, matchesLabels } from "@muster/names";
import { buildList, type ObjectForm } from "./encode.ts";
import type { JsonObject } from "./json.ts";
import { decodePosition, encodePosition, buildPage } from "./page.ts";
import { parseInteger, parseVersionQuery } from "./query.ts";
import { buildBucketName, type Resource } from "./resource.ts";
import { type FieldSelector, getLabels, matchesFields, parseFieldSelector, parseLabelSelector } from "./selectors.ts";
import { badRequest, expired, fail, futureRevision } from "./status.ts";
import type { Entry, ObjectStore } from "./store.ts";
import type { Target } from "./target.ts";
import { checkListOptions, getKeyNamespace, planList, refuseInvalid } from "./watch-events.ts";

export type Selectors = { readonly labels: LabelSelector; readonly fields: FieldSelector };

export function parseSelectors(resource: Resource, query: URLSearchParams): Selectors {
  return {
    labels: parseLabelSelector(query.get("labelSelector") ?? ""),
    fields: parseFieldSelector(query.get("fieldSelector") ?? "", resource.fields),
  };
}

/** Returns whether a list or watch selects a stored object. */
export function makeMatcher(
  target: Target,
  { labels, fields }: Selectors,
): (key: string, stored: JsonObject) => boolean {
  const { namespace, resource } = target;
  return (key, stored) =>
    (namespace === "" || getKeyNamespace(key) === namespace) &&
    matchesLabels(labels, getLabels(stored)) &&
    matchesFields(fields, stored, resource.fields);
}

type ListDeps = { readonly store: ObjectStore; readonly nowMs: () => number };

/** Message of Kubernetes. */
export const CONTINUE_TOO_OLD =
  "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

/** Lists a page of a resource. All pages of one list show the state of one revision. */
export function listObjects(
  { store, nowMs }: ListDeps,
  target: Target,
  view: ObjectForm,
  query: URLSearchParams,
): JsonObject {
  const selectors = parseSelectors(target.resource, query);
  const isSelective = selectors.labels.length + selectors.fields.length > 0;
  const { entries, revision, after, limit } = readState(store, target, query);
  const matches = makeMatcher(target, selectors);
  const page = buildPage(
    entries.filter(([key, object]) => matches(key, object)),
    limit,
    after,
  );
  const next = page.next === undefined ? undefined : encodePosition({ revision, after: page.next });
  const metadata: JsonObject = {
    resourceVersion: String(revision),
    ...(next === undefined ? {} : { continue: next }),
    ...(next === undefined || isSelective ? {} : { remainingItemCount: page.remaining }),
  };
  const objects = page.entries.map(([, object]) => object);
  return buildList(view, objects, metadata, nowMs());
}

type State = {
  readonly entries: readonly Entry[];
  readonly revision: number;
  readonly after: string | undefined;
  readonly limit: number;
};

function readState(store: ObjectStore, target: Target, query: URLSearchParams): State {
  const bucket = buildBucketName(target.resource);
  const limit = parseInteger(query, "limit") ?? 0;
  // A list is immediate and needs no time limit; an invalid number is still refused.
  parseInteger(query, "timeoutSeconds");
  const token = query.get("continue") ?? "";
  const now = (): State => ({ entries: store.entries(bucket), revision: store.revision(), after: undefined, limit });
  if (token !== "") return continued(store, bucket, token, query, limit);

  const plan = planList(parseVersionQuery(query));
  const revision = plan.state === "exact" ? plan.revision : plan.notOlderThan;
  if (revision > store.revision()) fail(futureRevision(revision, store.revision()));
  if (plan.state === "now") return { ...now(), limit: plan.limited ? limit : 0 };
  const entries = store.entriesAt(bucket, revision);
  if (entries === undefined) return fail(expired("The resourceVersion for the provided list is too old."));
  return { entries, revision, after: undefined, limit };
}

function continued(store: ObjectStore, bucket: string, token: string, query: URLSearchParams, limit: number): State {
  refuseInvalid(checkListOptions(parseVersionQuery(query)));
  const resourceVersion = query.get("resourceVersion") ?? "";
  if (resourceVersion !== "" && resourceVersion !== "0") {
    fail(badRequest("specifying resource version is not allowed when using continue"));
  }
  const { revision, after } = decodePosition(token);
  // The rest of a list that the history has lost can still be returned, from another state.
  if (revision < 0) return { entries: store.entries(bucket), revision: store.revision(), after, limit };
  const entries = store.entriesAt(bucket, revision);
  if (entries === undefined) return fail(expired(CONTINUE_TOO_OLD, encodePosition({ revision: -1, after })));
  return { entries, revision, after, limit };
}
