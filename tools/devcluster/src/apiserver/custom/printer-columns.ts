import { formatHumanDuration } from "../duration.ts";
import { at, isList, isObject, type JsonValue, type JsonObject, getList, findNumber, getText } from "../json.ts";
import { formatAge, type Column, NAME } from "../table.ts";

const CREATED =
  "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/** Shown when a definition names no columns. */
const AGE: Column = {
  name: "Age",
  type: "date",
  format: "",
  priority: 0,
  description: CREATED,
  cell: (object, nowMs) => formatAge(getText(object, "metadata", "creationTimestamp"), nowMs),
};

/** The columns that `kubectl get` shows of a version of a definition. */
export function buildColumns(version: JsonObject): readonly Column[] {
  const given = getList(version, "additionalPrinterColumns").filter(isObject);
  return [NAME, ...(given.length === 0 ? [AGE] : given.map(buildColumn))];
}

function buildColumn(column: JsonObject): Column {
  const path = getText(column, "jsonPath");
  const type = getText(column, "type");
  const find = readColumnPath(path);
  return {
    name: getText(column, "name"),
    type,
    format: getText(column, "format"),
    priority: findNumber(column, "priority") ?? 0,
    description: getText(column, "description") || `Custom resource definition column (in JSONPath format): ${path}`,
    cell: (object, nowMs) => {
      const found = find?.(object);
      return found === undefined ? null : formatCell(found, type, nowMs);
    },
  };
}

export function listColumnPaths(version: JsonObject): string[] {
  return getList(version, "additionalPrinterColumns").map((column) => getText(column, "jsonPath"));
}

/** Parses a dotted path; `[-1:]` takes the last item of a list. Undefined for any other path. */
export function readColumnPath(path: string): ((object: JsonValue) => JsonValue | undefined) | undefined {
  if (!/^(\.[\w-]+(\[-1:\])?)+$/.test(path)) return undefined;
  const names = path.slice(1).replaceAll("[-1:]", ".[-1:]").split(".");
  return (object) =>
    names.reduce<JsonValue | undefined>((value, name) => {
      if (name === "[-1:]") return isList(value) ? value.at(-1) : undefined;
      return at(value, name);
    }, object);
}

function formatCell(value: JsonValue, type: string, nowMs: number): JsonValue {
  switch (type) {
    case "integer":
      return typeof value === "number" && Number.isInteger(value) ? value : null;
    case "number":
      return typeof value === "number" ? value : null;
    case "boolean":
      return typeof value === "boolean" ? value : null;
    case "date": {
      const ms = typeof value === "string" ? Date.parse(value) : Number.NaN;
      return Number.isNaN(ms) ? "<invalid>" : formatHumanDuration(nowMs - ms);
    }
    default:
      return print(value);
  }
}

function print(value: JsonValue): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}
