import { findNearestName } from "./nearest-name.ts";
import { describeValue, type Path, type ValueReader } from "./read-value.ts";

/** The JSON Schema keywords that the schemas of jobs and pod templates use; others are only descriptions. */
export type CheckedSchema = {
  /** Describes the allowed values if none of `anyOf` fits. */
  readonly title?: string;
  /** The reason, if the field is forbidden (`not`). */
  readonly description?: string;
  /** A forbidden field. */
  readonly not?: Readonly<Record<string, never>>;
  readonly anyOf?: readonly CheckedSchema[];
  readonly type?: string;
  readonly const?: string;
  readonly enum?: readonly string[];
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, CheckedSchema>>;
  readonly additionalProperties?: boolean | CheckedSchema;
  readonly minProperties?: number;
  readonly maxProperties?: number;
  readonly items?: CheckedSchema;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  /** Allowed only in `anyOf`. */
  readonly pattern?: string;
};

/** Reports every value of plain data that violates the schema, with its path. */
export function checkSchema(reader: ValueReader, schema: CheckedSchema, path: Path, value: unknown): void {
  if (schema.not !== undefined) {
    reader.report(path, `cannot be ${describeValue(value)}: ${schema.description ?? ""}`);
    return;
  }
  if (schema.anyOf !== undefined) {
    if (!schema.anyOf.some((each) => isSimple(each, value)))
      reader.report(path, `must be ${schema.title ?? "of another form"}, not ${describeValue(value)}`);
    return;
  }
  if (schema.const !== undefined) {
    reader.oneOf(path, value, [schema.const]);
    return;
  }
  if (schema.enum !== undefined) {
    reader.oneOf(path, value, schema.enum);
    return;
  }
  switch (schema.type) {
    case "object":
      checkMapping(reader, schema, path, value);
      return;
    case "array":
      checkList(reader, schema, path, value);
      return;
    case "string":
      checkText(reader, schema, path, value);
      return;
    case "integer":
      reader.integer(path, value, {
        min: schema.minimum ?? Number.MIN_SAFE_INTEGER,
        max: schema.maximum ?? Number.MAX_SAFE_INTEGER,
      });
      return;
    case "boolean":
      if (typeof value !== "boolean") reader.report(path, "must be true or false");
      return;
    default:
  }
}

/** Checks an alternative of a field that is a number or a string. */
function isSimple({ type, minimum = -Infinity, pattern = "" }: CheckedSchema, value: unknown): boolean {
  if (typeof value === "number") return type === "number" && value >= minimum;
  return typeof value === "string" && type === "string" && new RegExp(pattern, "u").test(value);
}

/** Ignores inherited names such as `constructor`. */
function getOwnProperty(properties: Readonly<Record<string, CheckedSchema>>, name: string): CheckedSchema | undefined {
  return Object.hasOwn(properties, name) ? properties[name] : undefined;
}

function checkMapping(reader: ValueReader, schema: CheckedSchema, path: Path, value: unknown): void {
  const { properties = {}, additionalProperties: others = true } = schema;
  const closed = others === false ? Object.keys(properties) : listKeys(value);
  const fields = reader.mapping(path, value, closed, (name) => getOwnProperty(properties, name)?.not !== undefined);
  if (fields === undefined) return;
  const names = Object.keys(fields);
  for (const name of schema.required ?? []) {
    if (fields[name] !== undefined) continue;
    // A misspelt name is already reported as an unknown field.
    if (
      findNearestName(
        name,
        names.filter((each) => !Object.hasOwn(properties, each)),
      ) === undefined
    ) {
      reader.report(path, `lacks ${name}`);
    }
  }
  const { minProperties = 0, maxProperties = Infinity } = schema;
  if (names.length < minProperties) reader.report(path, `needs at least ${minProperties}, and has ${names.length}`);
  if (names.length > maxProperties) reader.report(path, `has ${names.length}; ${maxProperties} at most`);
  for (const name of names) {
    const own = getOwnProperty(properties, name) ?? (typeof others === "object" ? others : undefined);
    if (own !== undefined) checkSchema(reader, own, [...path, name], fields[name]);
  }
}

function checkList(reader: ValueReader, schema: CheckedSchema, path: Path, value: unknown): void {
  const list = reader.list(path, value);
  if (list === undefined) return;
  const { minItems = 0, maxItems = Infinity, items } = schema;
  if (list.length < minItems) reader.report(path, `needs at least ${minItems}, and has ${list.length}`);
  if (list.length > maxItems) reader.report(path, `has ${list.length}; ${maxItems} at most`);
  if (items === undefined) return;
  for (const [index, item] of list.entries()) checkSchema(reader, items, [...path, index], item);
}

function checkText(reader: ValueReader, schema: CheckedSchema, path: Path, value: unknown): void {
  const text = reader.text(path, value);
  if (text === undefined) return;
  const { minLength = 0, maxLength = Infinity } = schema;
  if (text.includes("\0")) reader.report(path, "holds a zero character");
  if (text.length < minLength) reader.report(path, "is empty");
  if (text.length > maxLength) reader.report(path, `has ${text.length} characters; ${maxLength} at most`);
}

function listKeys(value: unknown): string[] {
  return typeof value === "object" && value !== null ? Object.keys(value) : [];
}
