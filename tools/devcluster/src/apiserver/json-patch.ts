import { isList, isObject, type JsonValue, type JsonObject, isSameJson, getText, withKey, removeKey } from "./json.ts";
import { badRequest, fail, type Failure } from "./status.ts";

/**
 * Applies a JSON patch (RFC 6902). A patch that is no list of operations fails with 400; one that does not fit the document with 422, as Kubernetes
 * answers. Kept because makeKubeCalls offers it and `kubectl patch --type=json` sends it.
 */
export function applyJsonPatch(document: JsonValue, patch: JsonValue): JsonValue {
  if (!isList(patch))
    return fail(badRequest("error decoding patch: json: cannot unmarshal object into a list of operations"));
  if (patch.length > OPERATIONS_LIMIT) {
    const message = `The allowed maximum operations in a JSON patch is ${OPERATIONS_LIMIT}, got ${patch.length}`;
    return fail({ code: 413, reason: "RequestEntityTooLarge", message });
  }
  return patch.reduce((current, operation) => apply(current, operation), document);
}

const OPERATIONS_LIMIT = 10_000;

const unfit: Failure = {
  code: 422,
  reason: "Invalid",
  message: "the server rejected our request due to an error in our request",
  details: {},
};

function apply(document: JsonValue, operation: JsonValue): JsonValue {
  if (!isObject(operation)) return fail(unfit);
  const path = readPointer(operation, "path");
  const value = (): JsonValue => operation["value"] ?? (Object.hasOwn(operation, "value") ? null : fail(unfit));
  switch (getText(operation, "op")) {
    case "add":
      return add(document, path, value());
    case "remove":
      return remove(document, path);
    case "replace":
      return replace(document, path, value());
    case "copy":
      return add(document, path, read(document, readPointer(operation, "from")));
    case "move": {
      const from = readPointer(operation, "from");
      return add(remove(document, from), path, read(document, from));
    }
    case "test":
      return isSameJson(read(document, path), value()) ? document : fail(unfit);
    default:
      return fail(unfit);
  }
}

function readPointer(operation: JsonObject, key: string): string[] {
  const text = operation[key];
  if (typeof text !== "string" || (text !== "" && !text.startsWith("/"))) return fail(unfit);
  return text
    .split("/")
    .slice(1)
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
}

function read(document: JsonValue, path: readonly string[]): JsonValue {
  return path.reduce<JsonValue>((value, key) => {
    if (isList(value)) return value[index(key, value.length - 1)] ?? fail(unfit);
    if (isObject(value) && Object.hasOwn(value, key)) return value[key] ?? null;
    return fail(unfit);
  }, document);
}

function add(document: JsonValue, path: readonly string[], value: JsonValue): JsonValue {
  return (
    change(document, path, (holder, key) => {
      if (!isList(holder)) return withKey(holder, key, value);
      return holder.toSpliced(key === "-" ? holder.length : index(key, holder.length), 0, value);
    }) ?? value
  );
}

/** As in Kubernetes, a missing key is added, but a list index has to exist. */
function replace(document: JsonValue, path: readonly string[], value: JsonValue): JsonValue {
  const put = change(document, path, (holder, key) =>
    isList(holder) ? holder.with(index(key, holder.length - 1), value) : withKey(holder, key, value),
  );
  return put ?? value;
}

function remove(document: JsonValue, path: readonly string[]): JsonValue {
  return (
    change(document, path, (holder, key) => {
      if (isList(holder)) return holder.toSpliced(index(key, holder.length - 1), 1);
      return Object.hasOwn(holder, key) ? removeKey(holder, key) : fail(unfit);
    }) ?? null
  );
}

/** Replaces the holder of the path's last key, and its ancestors; undefined for the whole document. */
function change(
  document: JsonValue,
  path: readonly string[],
  replace: (holder: JsonObject | readonly JsonValue[], key: string) => JsonValue,
): JsonValue | undefined {
  const [key, ...rest] = path;
  if (key === undefined) return undefined;
  if (!isObject(document) && !isList(document)) return fail(unfit);
  if (rest.length === 0) return replace(document, key);
  if (isList(document)) {
    const position = index(key, document.length - 1);
    return document.with(position, change(document[position] ?? null, rest, replace) ?? null);
  }
  if (!Object.hasOwn(document, key)) return fail(unfit);
  return withKey(document, key, change(document[key] ?? null, rest, replace) ?? null);
}

function index(key: string, last: number): number {
  const position = /^(0|[1-9]\d*)$/.test(key) ? Number(key) : Number.NaN;
  return position <= last ? position : fail(unfit);
}
