import type { Environment } from "@marcbachmann/cel-js";
import { isList, isObject, type Json, type JsonObject, objectAt, textAt } from "../json.ts";
import { isIntOrString, itemSchema, type Structural } from "./structural.ts";

const KEYWORDS = new Set(
  "true false null in as break const continue else for function if import let loop package namespace return var void while".split(
    " ",
  ),
);
const METADATA: Structural = {
  type: "object",
  properties: { name: { type: "string" }, generateName: { type: "string" } },
};
const IDENTITY: JsonObject = { apiVersion: { type: "string" }, kind: { type: "string" }, metadata: METADATA };

/** How the values of a schema are seen by rules: the type that they are checked with, and the way from JSON. */
export type RuleType = { readonly name: string; readonly convert: (value: Json) => unknown };

const LITERALS = new Set(["true", "false", "null", "in"]);

/** The names that a rule may write for a field: a keyword is escaped, and selects as it is unless it is a literal; any other name that is no identifier is escaped. */
function namesInRules(name: string): readonly string[] {
  if (LITERALS.has(name)) return [`__${name}__`];
  return KEYWORDS.has(name) ? [`__${name}__`, name] : [escapeName(name)].filter((each) => each !== undefined);
}

function escapeName(name: string): string | undefined {
  const escaped = name
    .replaceAll("__", "__underscores__")
    .replaceAll(".", "__dot__")
    .replaceAll("-", "__dash__")
    .replaceAll("/", "__slash__");
  return /^[A-Za-z_]\w*$/.test(escaped) ? escaped : undefined;
}

/** Declares types in an environment, each schema once. The root of all is a whole object, with its kind and its name. */
export function typeDeclarer(environment: Environment, root: Structural): (schema: Structural) => RuleType {
  const declared = new Map<Structural, RuleType>();
  let objects = 0;
  const declare = (schema: Structural): RuleType => {
    const known = declared.get(schema);
    if (known !== undefined) return known;
    const type = build(schema);
    declared.set(schema, type);
    return type;
  };
  const build = (one: Structural): RuleType => {
    if (isIntOrString(one)) return dynamic;
    const properties = objectAt(one, "properties");
    const rest = one["additionalProperties"];
    switch (textAt(one, "type")) {
      case "string":
        return textType(textAt(one, "format"));
      case "boolean":
        return { name: "bool", convert: (value) => value };
      case "integer":
        return { name: "int", convert: (value) => (isWhole(value) ? BigInt(value) : value) };
      case "number":
        return { name: "double", convert: (value) => value };
      case "array": {
        const items = declare(itemSchema(one) ?? {});
        return {
          name: `list<${items.name}>`,
          convert: (value) => (isList(value) ? value.map((item) => convertWith(items, item)) : value),
        };
      }
      case "object": {
        if (isObject(rest)) return mapType(declare(rest));
        const fields = one === root ? { ...properties, ...IDENTITY } : properties;
        if (Object.keys(fields).length === 0)
          return one["x-kubernetes-preserve-unknown-fields"] === true ? dynamic : mapType(dynamic);
        objects += 1;
        return declareObject(environment, `object_${objects}`, fields, declare);
      }
      default:
        return dynamic;
    }
  };
  return declare;
}

function declareObject(
  environment: Environment,
  name: string,
  properties: JsonObject,
  declare: (schema: Structural) => RuleType,
): RuleType {
  const fields: { readonly key: string; readonly field: string; readonly type: RuleType }[] = [];
  for (const [key, schema] of Object.entries(properties)) {
    if (!isObject(schema)) continue;
    for (const field of namesInRules(key)) fields.push({ key, field, type: declare(schema) });
  }
  // The class tells instances of this type from those of others.
  class Instance {
    readonly [field: string]: unknown;
    constructor(given: Readonly<Record<string, unknown>>) {
      Object.assign(this, given);
    }
  }
  const declared = fields.map(({ field, type }) => [field, type.name] as const);
  environment.registerType(name, { ctor: Instance, fields: Object.fromEntries(declared) });
  environment.registerOperator(`${name} == ${name}`, (a: unknown, b: unknown) => sameValue(a, b));
  return {
    name,
    convert: (value) => {
      if (!isObject(value)) return value;
      const given = fields.filter(({ key }) => Object.hasOwn(value, key));
      return new Instance(
        Object.fromEntries(given.map(({ key, field, type }) => [field, convertWith(type, value[key] ?? null)])),
      );
    },
  };
}

function convertWith(type: RuleType, value: Json): unknown {
  return value === null ? null : type.convert(value);
}

function mapType(values: RuleType): RuleType {
  return {
    name: `map<string, ${values.name}>`,
    convert: (value) => {
      if (!isObject(value)) return value;
      return new Map(Object.entries(value).map(([key, child]) => [key, convertWith(values, child)]));
    },
  };
}

function textType(format: string): RuleType {
  switch (format) {
    case "date-time":
      return { name: "google.protobuf.Timestamp", convert: (value) => new Date(textOf(value)) };
    default:
      return { name: "string", convert: (value) => value };
  }
}

/** Whether two values are the same for a rule. */
export function sameValue(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (a instanceof Date && b instanceof Date) return a.valueOf() === b.valueOf();
  if (Array.isArray(a) && Array.isArray(b)) {
    return a.length === b.length && a.every((item, index) => sameValue(item, b[index]));
  }
  const [left, right] = [entriesOf(a), entriesOf(b)];
  return (
    left.size === right.size && [...left].every(([key, value]) => right.has(key) && sameValue(value, right.get(key)))
  );
}

function entriesOf(value: object): ReadonlyMap<unknown, unknown> {
  return value instanceof Map ? value : new Map(Object.entries(value));
}

function isWhole(value: Json): value is number {
  return typeof value === "number" && Number.isInteger(value);
}

/** Values whose type is found out when a rule runs: whole numbers are ints. */
const dynamic: RuleType = { name: "dyn", convert: toDynamic };

function toDynamic(value: Json): unknown {
  if (isWhole(value)) return BigInt(value);
  if (isList(value)) return value.map(toDynamic);
  if (isObject(value)) return new Map(Object.entries(value).map(([key, child]) => [key, toDynamic(child)]));
  return value;
}

function textOf(value: Json): string {
  return typeof value === "string" ? value : "";
}
