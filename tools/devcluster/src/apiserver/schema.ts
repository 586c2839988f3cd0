import { findDefinition, definitions, buildReference, resolveSchema, type Schema } from "./definitions.ts";
import {
  at,
  isList,
  isObject,
  type JsonValue,
  type JsonObject,
  mapEntries,
  mapItems,
  getObject,
  getText,
} from "./json.ts";

/** The type of a field in Kubernetes' decoder. */
type FieldType =
  | { readonly is: "text" | "boolean" | "any" | "time" | "micro-time" | "int-or-string" | "bytes" | "quantity" }
  | { readonly is: "number"; readonly format: string }
  | { readonly is: "list" | "map"; readonly of: FieldType }
  | { readonly is: "model"; readonly model: string };

type Fields = ReadonlyMap<string, FieldType>;

const QUANTITY = /^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$/;
const TIME = /^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$/;
const BASE64 = /^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** Definitions that are one value and not a struct. */
const VALUES: Readonly<Record<string, FieldType>> = {
  "io.k8s.apimachinery.pkg.api.resource.Quantity": { is: "quantity" },
  "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": { is: "micro-time" },
  "io.k8s.apimachinery.pkg.apis.meta.v1.Time": { is: "time" },
  "io.k8s.apimachinery.pkg.util.intstr.IntOrString": { is: "int-or-string" },
};

const cache = new Map<string, Fields>();

export type DecodedObject = {
  readonly object: JsonObject;
  /** `unknown field "spec.foo"`, one for each field that Kubernetes does not have and drops. */
  readonly warnings: readonly string[];
};

/**
 * Decodes the fields of a built-in kind from a body: checks types, drops null, and normalises times and quantities. `wrong` refuses a value of the wrong type.
 * Values that equal the stored object are not decoded again.
 */
export function decodeObject(
  { apiVersion, kind }: { readonly apiVersion: string; readonly kind: string },
  body: JsonObject,
  wrong: (because: string) => never,
  stored?: JsonObject,
): DecodedObject {
  const model = findDefinition(apiVersion, kind);
  if (model === undefined) throw new Error(`no definition of ${apiVersion} ${kind}`);
  const warnings: string[] = [];
  const object = decodeModel(model, body, stored, { path: "", goPath: "", wrong, warnings });
  return { object, warnings };
}

/** As `decode`, for a definition at `path` of an object. */
export function decodeDefinition(
  model: string,
  body: JsonObject,
  path: string,
  wrong: (because: string) => never,
): DecodedObject {
  const warnings: string[] = [];
  const object = decodeModel(model, body, undefined, { path, goPath: path, wrong, warnings });
  return { object, warnings };
}

function listFields(model: string): Fields {
  const known = cache.get(model);
  if (known !== undefined) return known;
  const properties = getObject(definitions(), model, "properties");
  const fields = new Map(
    Object.entries(properties).map(([key, schema]) => [key, parseType(isObject(schema) ? schema : {})] as const),
  );
  cache.set(model, fields);
  return fields;
}

function parseType(schema: Schema): FieldType {
  const name = buildReference(schema);
  const value = VALUES[name];
  if (value !== undefined) return value;
  const { type, format, properties, items, additionalProperties } = resolveSchema(schema);
  if (isObject(properties) && name !== "") return { is: "model", model: name };
  switch (type) {
    case "string":
      return { is: format === "byte" ? "bytes" : "text" };
    case "boolean":
      return { is: "boolean" };
    case "integer":
    case "number":
      return { is: "number", format: getText(schema, "format") };
    case "array":
      return { is: "list", of: parseType(isObject(items) ? items : {}) };
    default:
      return isObject(additionalProperties) ? { is: "map", of: parseType(additionalProperties) } : { is: "any" };
  }
}

type Place = {
  /** The path with indexes, as strict decoding reports it. */
  readonly path: string;
  /** The path in the form of Go's decoder: `Container.spec.containers.image`. */
  readonly goPath: string;
  readonly wrong: (message: string) => never;
  readonly warnings: string[];
};

function decodeModel(model: string, value: JsonObject, known: JsonValue | undefined, place: Place): JsonObject {
  const fields = listFields(model);
  return mapEntries(value, (key, child) => {
    const type = fields.get(key);
    if (type !== undefined && child === null) return undefined;
    const before = at(known, key);
    if (type !== undefined && (child === before || isStoredUnchanged(type, child))) return child;
    const path = place.path === "" ? key : `${place.path}.${key}`;
    if (type === undefined) {
      place.warnings.push(`unknown field "${path}"`);
      return undefined;
    }
    const names = place.goPath === "" ? key : `${place.goPath}.${key}`;
    return decodeValue({ type, value: child, known: before }, { ...place, path, goPath: names }, goName(model));
  });
}

/** Returns whether a value has the type and is stored unchanged. Most values are, and need no path for errors. */
function isStoredUnchanged(type: FieldType, value: JsonValue): boolean {
  switch (type.is) {
    case "text":
      return typeof value === "string";
    case "boolean":
      return typeof value === "boolean";
    case "number":
      return isNumber(value, type.format);
    case "int-or-string":
      return typeof value === "string" || isNumber(value, "int32");
    case "any":
      return true;
    default:
      return false;
  }
}

/** `known` is the value of the stored object in the same place. It has been decoded: an equal value needs no second time. */
type Encoded = { readonly type: FieldType; readonly value: JsonValue; readonly known: JsonValue | undefined };

function decodeValue({ type, value, known }: Encoded, place: Place, owner: string): JsonValue {
  const mismatch = (): never => {
    const field = `${owner}.${place.goPath}`;
    return place.wrong(
      `json: cannot unmarshal ${jsonName(value)} into Go struct field ${field} of type ${goType(type)}`,
    );
  };
  switch (type.is) {
    case "any":
    case "text":
    case "boolean":
    case "number":
    case "int-or-string":
      return isStoredUnchanged(type, value) ? value : mismatch();
    case "bytes":
      if (typeof value !== "string") return mismatch();
      return BASE64.test(value) ? value : place.wrong("illegal base64 data at input byte 0");
    case "quantity":
      if (typeof value !== "string" && typeof value !== "number") return mismatch();
      if (QUANTITY.test(String(value))) return String(value);
      return place.wrong(`quantities must match the regular expression '${QUANTITY.source}'`);
    case "time":
    case "micro-time":
      return typeof value === "string" ? decodeTime(type.is, value, place) : mismatch();
    case "list":
      if (!isList(value)) return mismatch();
      return mapItems(value, (item, index) => {
        const before = isList(known) ? known[index] : undefined;
        if (item === before) return item;
        const encoded = { type: type.of, value: item ?? buildEmpty(type.of), known: before };
        return decodeValue(encoded, { ...place, path: `${place.path}[${index}]` }, owner);
      });
    case "map":
      if (!isObject(value)) return mismatch();
      return mapEntries(value, (key, item) =>
        decodeValue({ type: type.of, value: item ?? buildEmpty(type.of), known: at(known, key) }, place, owner),
      );
    case "model":
      return isObject(value) ? decodeModel(type.model, value, known, place) : mismatch();
  }
}

/** Kubernetes stores whole seconds, and exactly microseconds for some fields. */
function decodeTime(kind: "time" | "micro-time", value: string, place: Place): string {
  if (kind === "micro-time") refuseOtherThanMicro(value, place);
  const ms = TIME.test(value) ? Date.parse(value) : Number.NaN;
  if (Number.isNaN(ms)) {
    return place.wrong(`parsing time "${value}" as "2006-01-02T15:04:05Z07:00": cannot parse "${value}" as "2006"`);
  }
  const seconds = new Date(ms).toISOString().slice(0, 19);
  if (kind === "time") return `${seconds}Z`;
  const fraction = /\.(\d+)/.exec(value)?.[1] ?? "";
  return `${seconds}.${fraction.slice(0, 6).padEnd(6, "0")}Z`;
}

function refuseOtherThanMicro(value: string, place: Place): void {
  const [, rest] = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(.*)$/.exec(value) ?? [];
  const refuse = (found: string, wanted: string): never =>
    place.wrong(
      `parsing time "${value}" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "${found}" as "${wanted}"`,
    );
  if (rest === undefined) refuse(value, "2006");
  else if (!/^\.\d{6}/.test(rest)) refuse(rest, ".000000");
  else if (!/^.{7}(Z|[+-]\d\d:\d\d)$/.test(rest)) refuse(rest.slice(7), "Z07:00");
}

function isNumber(value: JsonValue, format: string): boolean {
  if (typeof value !== "number") return false;
  if (format === "double" || format === "float") return true;
  return Number.isInteger(value) && (format !== "int32" || Math.abs(value) <= 0x7fffffff);
}

function buildEmpty(type: FieldType): JsonValue {
  switch (type.is) {
    case "list":
      return [];
    case "map":
    case "model":
      return {};
    case "number":
      return 0;
    case "boolean":
      return false;
    case "any":
    case "int-or-string":
    case "text":
    case "bytes":
    case "quantity":
      return "";
    case "time":
    case "micro-time":
      return "1970-01-01T00:00:00Z";
  }
}

function jsonName(value: JsonValue): string {
  if (isList(value)) return "array";
  if (typeof value === "boolean") return "bool";
  if (typeof value === "number" && !Number.isInteger(value)) return `number ${value}`;
  return typeof value;
}

function goType(type: FieldType): string {
  switch (type.is) {
    case "list":
      return `[]${goType(type.of)}`;
    case "map":
      return `map[string]${goType(type.of)}`;
    case "model":
      return `v1.${goName(type.model)}`;
    case "number":
      return type.format;
    case "boolean":
      return "bool";
    case "any":
    case "text":
    case "bytes":
    case "quantity":
    case "int-or-string":
    case "time":
    case "micro-time":
      return "string";
  }
}

function goName(model: string): string {
  return model.slice(model.lastIndexOf(".") + 1);
}
