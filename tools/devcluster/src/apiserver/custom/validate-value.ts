import {
  isList,
  isObject,
  type JsonValue,
  type JsonObject,
  getList,
  findNumber,
  getObject,
  isSameJson,
  getText,
  getTexts,
} from "../json.ts";
import { invalidValue, type Problem, required } from "../status.ts";
import { listChildren, correlateItems, isIntOrString, findItemSchema, type StructuralSchema } from "./structural.ts";

const INT32_MAX = 2 ** 31 - 1;

/**
 * Validates a value against a schema, in the words of Kubernetes. Values that are unchanged from `old` are accepted, so that a once valid object can still be
 * changed after its schema became stricter.
 */
export function validateValue(schema: StructuralSchema, value: JsonValue, path: string, old?: JsonValue): Problem[] {
  if (old !== undefined && isSameJson(value, old)) return [];
  if (value === null) return [...checkType(schema, value, path), ...checkEnum(schema, value, path)];
  return [
    ...checkType(schema, value, path),
    ...checkCombinations(schema, value, path),
    ...(typeof value === "string" ? checkText(schema, value, path) : []),
    ...(typeof value === "number" ? checkNumber(schema, value, path) : []),
    ...(isList(value) ? checkList(schema, value, path, isList(old) ? old : undefined) : []),
    ...checkEnum(schema, value, path),
    ...(isObject(value) ? checkObject(schema, value, path, isObject(old) ? old : undefined) : []),
  ];
}

/** Returns whether the problem prevents CEL rules, which rely on well-formed values. */
export function isBlockingRules({ reason }: Problem): boolean {
  return [
    "FieldValueNotSupported",
    "FieldValueRequired",
    "FieldValueTooLong",
    "FieldValueTooMany",
    "FieldValueTypeInvalid",
  ].includes(reason);
}

function listTypes(schema: StructuralSchema): string[] {
  if (isIntOrString(schema)) return ["integer", "string"];
  const type = getText(schema, "type");
  return type === "" ? [] : [type];
}

function checkType(schema: StructuralSchema, value: JsonValue, path: string): Problem[] {
  const types = listTypes(schema);
  const format = getText(schema, "format");
  if (types.length === 0) return [];
  if (value === null) return schema["nullable"] === true ? [] : [wrongType(path, types.join(","), "null")];
  const actual = typeName(value);
  const fits = types.includes(actual) || (actual === "integer" && types.includes("number"));
  if (fits) return [];
  const isText = typeof value === "string" || isList(value);
  const isNumeric = types.includes("number") || types.includes("integer");
  if (format !== "" && isText && !isNumeric) return [];
  const isFormat = format !== "" && !isText;
  return [wrongType(path, isFormat ? format : types.join(","), isFormat ? formatName(value) : actual)];
}

function typeName(value: JsonValue): string {
  if (value === null) return "null";
  if (isList(value)) return "array";
  if (isObject(value)) return "object";
  if (typeof value === "number") return Number.isInteger(value) ? "integer" : "number";
  return typeof value;
}

/** Formats a value's type as Go does. */
function formatName(value: JsonValue): string {
  if (typeof value !== "number") return "";
  return Number.isInteger(value) ? "int64" : "float64";
}

function wrongType(path: string, wanted: string, actual: string): Problem {
  const said = actual === "" ? "" : `: ${JSON.stringify(actual)}`;
  const message = `Invalid value: ${JSON.stringify(actual)}: ${path} in body must be of type ${wanted}${said}`;
  return { field: formatField(path), reason: "FieldValueTypeInvalid", message };
}

function checkText(schema: StructuralSchema, value: string, path: string): Problem[] {
  const longest = findNumber(schema, "maxLength");
  const shortest = findNumber(schema, "minLength");
  const pattern = getText(schema, "pattern");
  const length = longest === undefined && shortest === undefined ? 0 : [...value].length;
  const problems: Problem[] = [];
  if (longest !== undefined && length > longest) {
    const message = `Too long: may not be more than ${longest} bytes`;
    problems.push({ field: formatField(path), reason: "FieldValueTooLong", message });
  } else if (shortest !== undefined && length < shortest) {
    problems.push(wrong(path, value, `should be at least ${shortest} chars long`));
  } else if (pattern !== "" && compilePattern(pattern)?.test(value) === false) {
    problems.push(wrong(path, value, `should match '${pattern}'`));
  }
  if (getText(schema, "format") === "date-time" && !isDateTime(value)) {
    const because = `${path} in body must be of type ${getText(schema, "format")}: ${JSON.stringify(value)}`;
    const message = `Invalid value: ${JSON.stringify(value)}: ${because}`;
    problems.push({ field: formatField(path), reason: "FieldValueTypeInvalid", message });
  }
  return problems;
}

/** Schema keywords that no definition here uses. `not` and similar ones change the meaning of a schema, so they are refused. */
const NOT_SERVED = ["exclusiveMaximum", "exclusiveMinimum", "multipleOf", "not", "oneOf", "uniqueItems"];

/** Finds the first keyword or pattern of a schema that this server cannot check; undefined: it checks all. */
export function findNotServed(schema: StructuralSchema): string | undefined {
  const keyword = NOT_SERVED.find((name) => schema[name] !== undefined);
  if (keyword !== undefined) return keyword;
  const pattern = getText(schema, "pattern");
  if (pattern !== "" && compilePattern(pattern) === undefined) return `the pattern ${pattern}`;
  const parts = [
    ...listChildren(schema),
    ...[...getList(schema, "anyOf"), ...getList(schema, "allOf")].filter(isObject),
  ];
  return parts.map(findNotServed).find((found) => found !== undefined);
}

/** Compiles a pattern; undefined for a Go pattern that JavaScript cannot compile. */
function compilePattern(pattern: string): RegExp | undefined {
  try {
    return new RegExp(pattern, "u");
  } catch {
    return undefined;
  }
}

function isDateTime(text: string): boolean {
  return DATE_TIME.test(text) && isDay(text.slice(0, 10)) && !Number.isNaN(Date.parse(text.replace(" ", "T")));
}

const DATE_TIME = /^\d{4}-\d\d-\d\d([Tt ])\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:?\d\d)$/;

function isDay(text: string): boolean {
  const ms = Date.parse(`${text}T00:00:00Z`);
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(text);
}

function checkNumber(schema: StructuralSchema, value: number, path: string): Problem[] {
  const maximum = findNumber(schema, "maximum");
  const minimum = findNumber(schema, "minimum");
  const format = getText(schema, "format");
  const problems: Problem[] = [];
  if (
    format === "int32" &&
    getText(schema, "type") === "integer" &&
    (Math.abs(value) > INT32_MAX || !Number.isInteger(value))
  ) {
    problems.push(nowhere(`Checked value must be of type integer with format int32 in ${path}`));
  }
  if (maximum !== undefined && value > maximum)
    problems.push(wrong(path, value, `should be less than or equal to ${maximum}`));
  if (minimum !== undefined && value < minimum)
    problems.push(wrong(path, value, `should be greater than or equal to ${minimum}`));
  return problems;
}

function checkList(
  schema: StructuralSchema,
  value: readonly JsonValue[],
  path: string,
  old?: readonly JsonValue[],
): Problem[] {
  const most = findNumber(schema, "maxItems");
  const least = findNumber(schema, "minItems");
  const items = findItemSchema(schema);
  const inItems =
    items === undefined
      ? []
      : value.flatMap((item, index) => {
          const before = old === undefined ? undefined : correlateItems(schema, item, old);
          return validateValue(items, item, `${path}[${index}]`, before);
        });
  return [
    ...inItems,
    ...(least !== undefined && value.length < least
      ? [wrong(path, value.length, `should have at least ${least} items`)]
      : []),
    ...(most !== undefined && value.length > most ? [tooMany(path, value.length, most)] : []),
  ];
}

function checkEnum(schema: StructuralSchema, value: JsonValue, path: string): Problem[] {
  const choice = schema["enum"];
  if (!isList(choice) || choice.some((one) => isSameJson(one, value))) return [];
  const supported = choice.map((one) => JSON.stringify(typeof one === "string" ? one : JSON.stringify(one)));
  const message = `Unsupported value: ${JSON.stringify(value)}: supported values: ${supported.join(", ")}`;
  return [{ field: formatField(path), reason: "FieldValueNotSupported", message }];
}

function checkObject(schema: StructuralSchema, value: JsonObject, path: string, old?: JsonObject): Problem[] {
  const size = Object.keys(value).length;
  const most = findNumber(schema, "maxProperties");
  const least = findNumber(schema, "minProperties");
  const properties = getObject(schema, "properties");
  const rest = schema["additionalProperties"];
  const join = (key: string): string => (path === "" ? key : `${path}.${key}`);
  const before = (key: string): JsonValue | undefined =>
    old !== undefined && Object.hasOwn(old, key) ? old[key] : undefined;
  const inFields = Object.entries(value).flatMap(([key, child]) => {
    const property = Object.hasOwn(properties, key) ? properties[key] : rest;
    return isObject(property) ? validateValue(property, child, join(key), before(key)) : [];
  });
  const missing = getTexts(schema, "required").filter((key) => !Object.hasOwn(value, key));
  return [
    ...(least !== undefined && size < least ? [wrong(path, size, `should have at least ${least} properties`)] : []),
    ...(most !== undefined && size > most ? [tooMany(path, size, most)] : []),
    ...inFields,
    ...missing.map((key) => required(join(key))),
  ];
}

function checkCombinations(schema: StructuralSchema, value: JsonValue, path: string): Problem[] {
  const alternatives = (key: string): Problem[][] =>
    getList(schema, key).flatMap((one) => (isObject(one) ? [validateValue(one, value, path)] : []));
  const any = alternatives("anyOf");
  const all = alternatives("allOf");
  const problems: Problem[] = [];
  if (any.length > 0 && any.every((found) => found.length > 0)) {
    problems.push(nowhere(`${quoted(path)} must validate at least one schema (anyOf)`), ...fewest(any));
  }
  if (all.some((found) => found.length > 0)) {
    const none = all.every((found) => found.length > 0) ? ". None validated" : "";
    problems.push(...all.flat(), nowhere(`${quoted(path)} must validate all the schemas (allOf)${none}`));
  }
  return problems;
}

/** Of several alternatives, returns the one with the fewest problems. */
function fewest(found: readonly (readonly Problem[])[]): readonly Problem[] {
  return found.toSorted((a, b) => a.length - b.length)[0] ?? [];
}

function quoted(path: string): string {
  return JSON.stringify(path);
}

function wrong(path: string, value: JsonValue, because: string): Problem {
  return invalidValue(formatField(path), value, `${path} in body ${because}`);
}

function tooMany(path: string, actual: number, most: number): Problem {
  const message = `Too many: ${actual}: must have at most ${most} items`;
  return { field: formatField(path), reason: "FieldValueTooMany", message };
}

/** Some checks of Kubernetes name no field. */
function nowhere(because: string): Problem {
  return invalidValue("<nil>", "", because);
}

function formatField(path: string): string {
  return path === "" ? "<nil>" : path;
}
