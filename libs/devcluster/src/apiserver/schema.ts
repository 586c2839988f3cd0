import * as client from "@kubernetes/client-node";
import { isList, isObject, type Json, type JsonObject, mapEntries } from "./json.ts";

/**
 * Every field of every built-in kind, read off client-node's generated models: what Kubernetes' decoder knows of them is known here without a list of our own.
 */
type FieldType =
  | { readonly is: "text" | "boolean" | "any" | "time" | "micro-time" | "int-or-string" | "bytes" | "quantity" }
  | { readonly is: "number"; readonly format: string }
  | { readonly is: "list" | "map"; readonly of: FieldType }
  | { readonly is: "model"; readonly model: string };

type Fields = ReadonlyMap<string, FieldType>;

const QUANTITY = /^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$/;
const TIME = /^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$/;
const BASE64 = /^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** Texts and maps of texts that hold quantities: numbers are taken there too, and kept as texts. */
const QUANTITY_FIELDS = new Set([
  "V1ResourceRequirements.limits",
  "V1ResourceRequirements.requests",
  "V1VolumeResourceRequirements.limits",
  "V1VolumeResourceRequirements.requests",
  "V1NodeStatus.capacity",
  "V1NodeStatus.allocatable",
  "V1PodSpec.overhead",
  "V1ContainerStatus.allocatedResources",
  "V1EmptyDirVolumeSource.sizeLimit",
  "V1ResourceFieldSelector.divisor",
]);

const models = new Map<string, unknown>(Object.entries(client));
const cache = new Map<string, Fields>();

export type Decoded = {
  readonly object: JsonObject;
  /** `unknown field "spec.foo"`, one for each field that Kubernetes does not have and drops. */
  readonly warnings: readonly string[];
};

/** Takes from a body what the model has, with types checked, null left out, times and quantities in Kubernetes' own form. `wrong` refuses a value of the wrong type. */
export function decode(model: string, body: JsonObject, wrong: (because: string) => never): Decoded {
  const warnings: string[] = [];
  const object = decodeModel(model, body, { path: "", goPath: "", wrong, warnings });
  return { object, warnings };
}

/** Names of the fields of a model, for tests and documents. */
export function fieldsOf(model: string): Fields {
  const known = cache.get(model);
  if (known !== undefined) return known;
  const found = models.get(model);
  if (!hasTypeMap(found)) throw new Error(`client-node has no model ${model}`);
  const fields = new Map(
    found
      .getAttributeTypeMap()
      .map(({ baseName, type, format }) => [baseName, parseType(type, format, `${model}.${baseName}`)]),
  );
  cache.set(model, fields);
  return fields;
}

type TypeMap = { getAttributeTypeMap: () => { baseName: string; type: string; format: string }[] };

function hasTypeMap(model: unknown): model is TypeMap {
  return typeof model === "function" && "getAttributeTypeMap" in model;
}

function parseType(type: string, format: string, where: string): FieldType {
  const list = /^(?:Array|Set)<(.*)>$/.exec(type)?.[1];
  if (list !== undefined) return { is: "list", of: parseType(list, format, where) };
  const map = /^\{ \[key: string\]: (.*); \}$/.exec(type)?.[1];
  if (map !== undefined) return { is: "map", of: parseType(map, format, where) };
  switch (type) {
    case "string":
      if (QUANTITY_FIELDS.has(where)) return { is: "quantity" };
      return { is: format === "byte" ? "bytes" : "text" };
    case "boolean":
      return { is: "boolean" };
    case "number":
      return { is: "number", format };
    case "Date":
      return { is: "time" };
    case "V1MicroTime":
      return { is: "micro-time" };
    case "IntOrString":
      return { is: "int-or-string" };
    default:
      return models.has(type) ? { is: "model", model: type } : { is: "any" };
  }
}

type Place = {
  /** With indexes, as strict decoding reports it. */
  readonly path: string;
  /** As Go's decoder reports a wrong type: `Container.spec.containers.image`. */
  readonly goPath: string;
  readonly wrong: (message: string) => never;
  readonly warnings: string[];
};

function decodeModel(model: string, value: JsonObject, place: Place): JsonObject {
  const fields = fieldsOf(model);
  return mapEntries(value, (key, child) => {
    const path = place.path === "" ? key : `${place.path}.${key}`;
    const type = fields.get(key);
    if (type === undefined) {
      place.warnings.push(`unknown field "${path}"`);
      return undefined;
    }
    if (child === null) return undefined;
    const names = place.goPath === "" ? key : `${place.goPath}.${key}`;
    return decodeValue(type, child, { ...place, path, goPath: names }, goName(model));
  });
}

function decodeValue(type: FieldType, value: Json, place: Place, owner: string): Json {
  const mismatch = (): never => {
    const field = `${owner}.${place.goPath}`;
    return place.wrong(
      `json: cannot unmarshal ${jsonName(value)} into Go struct field ${field} of type ${goType(type)}`,
    );
  };
  switch (type.is) {
    case "any":
      return value;
    case "text":
      return typeof value === "string" ? value : mismatch();
    case "boolean":
      return typeof value === "boolean" ? value : mismatch();
    case "number":
      return isNumber(value, type.format) ? value : mismatch();
    case "int-or-string":
      return typeof value === "string" || isNumber(value, "int32") ? value : mismatch();
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
      return value.map((item, index) =>
        decodeValue(type.of, item ?? emptyOf(type.of), { ...place, path: `${place.path}[${index}]` }, owner),
      );
    case "map":
      if (!isObject(value)) return mismatch();
      return mapEntries(value, (_key, item) => decodeValue(type.of, item ?? emptyOf(type.of), place, owner));
    case "model":
      return isObject(value) ? decodeModel(type.model, value, place) : mismatch();
  }
}

/** Kubernetes keeps whole seconds, and microseconds where a field says so. */
function decodeTime(kind: "time" | "micro-time", value: string, place: Place): string {
  const ms = TIME.test(value) ? Date.parse(value) : Number.NaN;
  if (Number.isNaN(ms)) {
    return place.wrong(`parsing time "${value}" as "2006-01-02T15:04:05Z07:00": cannot parse "${value}" as "2006"`);
  }
  const seconds = new Date(ms).toISOString().slice(0, 19);
  if (kind === "time") return `${seconds}Z`;
  const fraction = /\.(\d+)/.exec(value)?.[1] ?? "";
  return `${seconds}.${fraction.slice(0, 6).padEnd(6, "0")}Z`;
}

function isNumber(value: Json, format: string): boolean {
  if (typeof value !== "number") return false;
  if (format === "double" || format === "float") return true;
  return Number.isInteger(value) && (format !== "int32" || Math.abs(value) <= 0x7fffffff);
}

function emptyOf(type: FieldType): Json {
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

function jsonName(value: Json): string {
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
  return model.replace(/^(V1|CoreV1|EventsV1)/, "");
}
