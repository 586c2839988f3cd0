import { isList, isObject, type Json, type JsonObject, listAt, mapEntries, objectAt, put, textAt } from "./json.ts";
import { listKeys, strategicMerge } from "./strategic-merge.ts";

type Applied = {
  readonly current: JsonObject;
  /** What the manager wants, whole. */
  readonly config: JsonObject;
  readonly manager: string;
  readonly time: string;
};

/**
 * Server-side apply, simple: what the manager names is set, what it named the last time and names no more is removed unless another manager applies it. Managers never conflict;
 * the last one wins.
 */
export function applyConfiguration({ current, config, manager, time }: Applied): JsonObject {
  const wanted = put(config, ["metadata", "managedFields"], undefined);
  const fields = fieldSet(withoutIdentity(wanted), []);
  const entries = listAt(current, "metadata", "managedFields");
  const isOwn = (entry: Json): boolean =>
    textAt(entry, "manager") === manager && textAt(entry, "operation") === "Apply";
  const before = objectAt(entries.find(isOwn), "fieldsV1");
  const others = entries.filter((entry) => !isOwn(entry)).map((entry) => objectAt(entry, "fieldsV1"));
  const abandoned = subtract(before, [fields, ...others]);
  const pruned = prune(current, abandoned, []);
  const merged = strategicMerge(isObject(pruned) ? pruned : {}, wanted);
  const entry: JsonObject = {
    manager,
    operation: "Apply",
    apiVersion: textAt(config, "apiVersion"),
    time,
    fieldsType: "FieldsV1",
    fieldsV1: fields,
  };
  const own = entries.find(isOwn);
  // The time tells when what the manager wants changed, so that applying the same again changes nothing.
  const kept = own !== undefined && JSON.stringify(before) === JSON.stringify(fields) ? own : entry;
  return put(merged, ["metadata", "managedFields"], [...entries.filter((one) => !isOwn(one)), kept]);
}

function withoutIdentity(config: JsonObject): JsonObject {
  const metadata = mapEntries(objectAt(config, "metadata"), (key, value) =>
    key === "name" || key === "namespace" ? undefined : value,
  );
  return mapEntries({ ...config, metadata }, (key, value) =>
    key === "apiVersion" || key === "kind" || (key === "metadata" && Object.keys(metadata).length === 0)
      ? undefined
      : value,
  );
}

/** Kubernetes' FieldsV1: `f:name` of a map, `k:{"name":"c"}` of a keyed list, `v:"x"` of a set; {} for a leaf. */
function fieldSet(value: Json, path: readonly string[]): JsonObject {
  if (isObject(value)) {
    return Object.fromEntries(
      Object.entries(value).map(([key, child]) => [`f:${key}`, fieldSet(child, [...path, key])]),
    );
  }
  const keys = isList(value) ? listKeys(path) : undefined;
  if (!isList(value) || keys === undefined) return {};
  if (keys === "value") return Object.fromEntries(value.map((item) => [`v:${JSON.stringify(item)}`, {}]));
  return Object.fromEntries(
    value.map((item) => [elementKey(item, keys), { ".": {}, ...fieldSet(item, path) }] as const),
  );
}

function elementKey(item: Json, keys: readonly string[]): string {
  return `k:${JSON.stringify(Object.fromEntries(keys.map((key) => [key, objectAt(item)[key] ?? null])))}`;
}

/** Leaves of `fields` that are in none of the others. */
function subtract(fields: JsonObject, others: readonly JsonObject[]): JsonObject {
  return mapEntries(fields, (key, child) => {
    const kept = others.filter((other) => Object.hasOwn(other, key)).map((other) => objectAt(other, key));
    if (kept.length === 0) return child;
    const rest = subtract(objectAt(child), kept);
    return Object.keys(rest).length === 0 ? undefined : { ...rest, keep: true };
  });
}

/** Removes the leaves that `fields` names. */
function prune(value: Json, fields: JsonObject, path: readonly string[]): Json {
  if (isObject(value)) {
    return mapEntries(value, (key, child) => {
      const named = fields[`f:${key}`];
      if (!isObject(named)) return child;
      const rest = prune(child, named, [...path, key]);
      return named["keep"] !== true && isGone(rest, named) ? undefined : rest;
    });
  }
  const keys = isList(value) ? listKeys(path) : undefined;
  if (!isList(value) || keys === undefined) return value;
  if (keys === "value") return value.filter((item) => !Object.hasOwn(fields, `v:${JSON.stringify(item)}`));
  return value.flatMap((item) => {
    const named = fields[elementKey(item, keys)];
    if (!isObject(named)) return [item];
    return named["keep"] === true ? [prune(item, named, path)] : [];
  });
}

/** A leaf goes; a map or list goes once nothing of others is left in it. */
function isGone(rest: Json, named: JsonObject): boolean {
  if (Object.keys(named).length === 0) return true;
  if (isObject(rest)) return Object.keys(rest).length === 0;
  return !isList(rest) || rest.length === 0;
}
