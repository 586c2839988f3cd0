import { at, isList, isObject, type Json, type JsonObject, listAt, objectAt, put, textAt, without } from "../json.ts";
import type { Resource } from "../resource.ts";
import type { Cause, Failure } from "../status.ts";
import { apiVersionOf } from "../resource.ts";
import { compareFields, fieldsOf, misfit } from "./compare-fields.ts";
import {
  type FieldSet,
  fromFieldsV1,
  difference,
  intersection,
  isEmpty,
  NOTHING,
  pathsOf,
  toFieldsV1,
  union,
  withoutBranch,
  withParents,
} from "./field-set.ts";
import { type Shape, shapeOfResource } from "./field-shape.ts";
import { KUBECTL, ownedByLastApplied, syncLastApplied } from "./last-applied.ts";
import { mergeFields, removeFields } from "./merge-fields.ts";

/** Who writes, by which path, and when. */
export type Writer = {
  readonly manager: string;
  readonly subresource: string;
  readonly time: string;
};

type Entry = {
  readonly manager: string;
  readonly operation: string;
  readonly apiVersion: string;
  readonly subresource: string;
  readonly time: string;
  readonly fields: FieldSet;
};

/** Fields of metadata that belong to nobody. */
const NOBODYS = [
  "creationTimestamp",
  "deletionGracePeriodSeconds",
  "deletionTimestamp",
  "generation",
  "managedFields",
  "name",
  "namespace",
  "resourceVersion",
  "selfLink",
  "uid",
];

/** The object with its record of who owns which field, after somebody has created or changed it. `before` is undefined for a new object. */
export function recordUpdate(
  resource: Resource,
  before: JsonObject | undefined,
  after: JsonObject,
  writer: Writer,
): JsonObject {
  const shape = shapeOfResource(resource);
  const reset = at(after, "metadata", "managedFields");
  // An empty list, written on purpose, forgets everything.
  if (isList(reset) && reset.length === 0) return put(after, ["metadata", "managedFields"], undefined);
  const given = listAt(after, "metadata", "managedFields");
  const known = given.length > 0 ? given : listAt(before, "metadata", "managedFields");
  const entries = readEntries(known);
  const { changed, removed } = compareFields(shape, comparable(before ?? blank(resource)), comparable(after));
  const own = ownable(changed, resource, writer.subresource);
  // What is unchanged has the owners that it had.
  if (isEmpty(own) && isEmpty(removed))
    return put(after, ["metadata", "managedFields"], known.length === 0 ? undefined : known);
  const left = entries.map((entry) => ({ ...entry, fields: difference(difference(entry.fields, own), removed) }));
  const apiVersion = apiVersionOf(resource);
  const isSelf = (entry: Entry): boolean =>
    entry.operation === "Update" &&
    entry.manager === writer.manager &&
    entry.subresource === writer.subresource &&
    entry.apiVersion === apiVersion;
  const self: Entry = {
    ...writer,
    operation: "Update",
    apiVersion,
    fields: union(left.find(isSelf)?.fields ?? NOTHING, own),
  };
  const others = left.filter((entry) => !isSelf(entry));
  return withEntries(after, isEmpty(own) ? left : [...others, self]);
}

export type Applied = { readonly object: JsonObject } | { readonly refused: Failure };

/** The object with what a configuration says, for whoever applies it; what it said the last time and says no more goes, unless somebody else owns it. */
export function applyConfig(
  resource: Resource,
  current: JsonObject | undefined,
  config: JsonObject,
  writer: Writer & { readonly force: boolean },
): Applied {
  const shape = shapeOfResource(resource);
  const wrong = misfit(shape, config);
  if (wrong !== undefined) return { refused: untyped(resource, config, wrong) };
  const live = current ?? { apiVersion: config["apiVersion"] ?? "", kind: config["kind"] ?? "", metadata: {} };
  const { object, conflicts } = tryApply({ resource, shape, current, live }, config, writer);
  const isKubectl = writer.manager === KUBECTL;
  const forgiven = isKubectl ? ownedByLastApplied(shape, live) : NOTHING;
  const left = conflicts
    .map((conflict) => ({ ...conflict, lost: difference(conflict.lost, forgiven) }))
    .filter(({ lost }) => !isEmpty(lost));
  if (left.length > 0 && !writer.force) return { refused: conflictOf(left) };
  return { object: isKubectl ? syncLastApplied(object, config) : object };
}

type Target = {
  readonly resource: Resource;
  readonly shape: Shape;
  readonly current: JsonObject | undefined;
  /** The current object, or an empty one. */
  readonly live: JsonObject;
};

/** The object as it is when whoever applies gets all the fields, and from whom they are taken. */
function tryApply(
  { resource, shape, current, live }: Target,
  config: JsonObject,
  writer: Writer,
): { readonly object: JsonObject; readonly conflicts: readonly Conflict[] } {
  const wanted = restrict(config, resource, writer.subresource);
  const recorded = readEntries(listAt(live, "metadata", "managedFields"));
  const entries = recorded.length === 0 && current !== undefined ? [earlier(resource, current, writer)] : recorded;
  const isSelf = (entry: Entry): boolean =>
    entry.operation === "Apply" && entry.manager === writer.manager && entry.subresource === writer.subresource;
  const last = entries.find(isSelf);
  const others = entries.filter((entry) => !isSelf(entry));
  const fields = ownable(fieldsOf(shape, wanted), resource, writer.subresource);
  const merged = asObject(mergeFields(shape, live, wanted));
  const owned = others.reduce((all, entry) => union(all, entry.fields), fields);
  const pruned = last === undefined ? merged : prune(shape, merged, last.fields, owned);
  const { changed, removed } = compareFields(shape, comparable(live), comparable(pruned));
  const conflicts = others.flatMap((entry) => {
    const lost = intersection(entry.fields, ownable(changed, resource, writer.subresource));
    return isEmpty(lost) ? [] : [{ entry, lost }];
  });
  const left = others.map((entry) => {
    const lost = conflicts.find((conflict) => conflict.entry === entry)?.lost ?? NOTHING;
    return { ...entry, fields: difference(difference(entry.fields, lost), removed) };
  });
  const isSame = isEmpty(changed) && isEmpty(removed);
  const self: Entry = {
    manager: writer.manager,
    operation: "Apply",
    apiVersion: apiVersionOf(resource),
    subresource: writer.subresource,
    // The time tells when something changed, so that applying the same again changes nothing.
    time: isSame ? (last?.time ?? "") : writer.time,
    fields,
  };
  return { object: withEntries(pruned, [...left, self]), conflicts };
}

/** Who owns what was there before anything was recorded. */
function earlier(resource: Resource, current: JsonObject, { subresource, time }: Writer): Entry {
  const { changed } = compareFields(shapeOfResource(resource), comparable(blank(resource)), comparable(current));
  const fields = ownable(changed, resource, subresource);
  const apiVersion = apiVersionOf(resource);
  return { manager: "before-first-apply", operation: "Update", apiVersion, subresource: "", time, fields };
}

/** Takes away what was applied before, is applied no more, and belongs to nobody else. */
function prune(shape: Shape, merged: JsonObject, last: FieldSet, owned: FieldSet): JsonObject {
  const gone = difference(last, withParents(owned));
  return isEmpty(gone) ? merged : asObject(removeFields(shape, merged, gone) ?? {});
}

function asObject(value: Json): JsonObject {
  return isObject(value) ? value : {};
}

/** A new object as Kubernetes begins with it: what is no pointer in Go is there, and empty. */
function blank(resource: Resource): JsonObject {
  if (resource.schema !== undefined) return { metadata: {} };
  return { metadata: {}, spec: { containers: null }, status: {}, involvedObject: {}, source: {} };
}

/** Identity and the record itself are not compared. */
function comparable(object: JsonObject): JsonObject {
  return { ...without(object, "apiVersion", "kind"), metadata: without(objectAt(object, "metadata"), ...NOBODYS) };
}

/** What whoever writes by this path may own: never the name of an object, and the status only where it is written. */
function ownable(set: FieldSet, resource: Resource, subresource: string): FieldSet {
  const paths = [
    ["f:apiVersion"],
    ["f:kind"],
    ...NOBODYS.map((name) => ["f:metadata", `f:${name}`]),
    ...(subresource === "status" ? [["f:spec"]] : resource.subresources.includes("status") ? [["f:status"]] : []),
  ];
  const left = paths.reduce((rest, path) => withoutBranch(rest, ...path), set);
  const metadata = left.below.get("f:metadata");
  // Metadata itself is always there.
  if (metadata === undefined || !metadata.own) return left;
  const below = new Map(left.below);
  if (metadata.below.size === 0) below.delete("f:metadata");
  else below.set("f:metadata", { ...metadata, own: false });
  return { own: left.own, below };
}

/** The part of a configuration that the path lets through. */
function restrict(config: JsonObject, resource: Resource, subresource: string): JsonObject {
  if (subresource === "status") return without(config, "spec");
  return resource.subresources.includes("status") ? without(config, "status") : config;
}

function readEntries(list: readonly Json[]): Entry[] {
  return list.map((entry) => ({
    manager: textAt(entry, "manager"),
    operation: textAt(entry, "operation"),
    apiVersion: textAt(entry, "apiVersion"),
    subresource: textAt(entry, "subresource"),
    time: textAt(entry, "time"),
    fields: fromFieldsV1(objectAt(entry, "fieldsV1")),
  }));
}

/** Those who apply first, then by time and name. */
function withEntries(object: JsonObject, entries: readonly Entry[]): JsonObject {
  const rank = ({ operation, time, manager, apiVersion, subresource }: Entry): string =>
    [operation, time, manager, apiVersion, subresource].join("\0");
  const list = entries
    .filter(({ fields }) => !isEmpty(fields))
    .toSorted((a, b) => (rank(a) < rank(b) ? -1 : 1))
    .map(writeEntry);
  return put(object, ["metadata", "managedFields"], list.length === 0 ? undefined : list);
}

function writeEntry({ manager, operation, apiVersion, time, fields, subresource }: Entry): JsonObject {
  return {
    manager,
    operation,
    apiVersion,
    ...(time === "" ? {} : { time }),
    fieldsType: "FieldsV1",
    fieldsV1: toFieldsV1(fields),
    ...(subresource === "" ? {} : { subresource }),
  };
}

type Conflict = { readonly entry: Entry; readonly lost: FieldSet };

function conflictOf(conflicts: readonly Conflict[]): Failure {
  const found = conflicts
    .map(({ entry, lost }) => ({ who: describeOwner(entry), paths: pathsOf(lost) }))
    .toSorted((a, b) => (a.who < b.who ? -1 : 1));
  const count = found.reduce((sum, { paths }) => sum + paths.length, 0);
  const causes = found.flatMap(({ who, paths }) =>
    paths.map((field): Cause => ({ reason: "FieldManagerConflict", message: `conflict with ${who}`, field })),
  );
  const texts = found.map(({ who, paths: [first = "", ...more] }) =>
    count === 1
      ? `conflict with ${who}: ${first}`
      : `conflicts with ${who}:\n${[first, ...more].map((path) => `- ${path}`).join("\n")}`,
  );
  return {
    code: 409,
    reason: "Conflict",
    message: `Apply failed with ${count} conflict${count === 1 ? "" : "s"}: ${texts.join("\n")}`,
    details: { causes },
  };
}

function describeOwner({ manager, subresource, operation, apiVersion }: Entry): string {
  const path = subresource === "" ? "" : ` with subresource ${JSON.stringify(subresource)}`;
  return `${JSON.stringify(manager)}${path}${operation === "Update" ? ` using ${apiVersion}` : ""}`;
}

function untyped({ group, version, kind }: Resource, config: JsonObject, because: string): Failure {
  const name = `${textAt(config, "metadata", "namespace")}/${textAt(config, "metadata", "name")}`;
  const type = `${group}/${version}, Kind=${kind}`;
  return {
    code: 500,
    reason: "",
    message: `failed to create typed patch object (${name}; ${type}): ${because}`,
  };
}
