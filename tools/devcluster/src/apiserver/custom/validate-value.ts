import {
  isList,
  isObject,
  type Json,
  type JsonObject,
  listAt,
  numberAt,
  objectAt,
  sameJson,
  textAt,
  textsAt,
} from "../json.ts";
import { invalidValue, type Problem, required } from "../status.ts";
import { FORMATS } from "./formats.ts";
import { compilePattern } from "./pattern.ts";
import { correlate, isIntOrString, itemSchema, type Structural } from "./structural.ts";

const INT32_MAX = 2 ** 31 - 1;

/**
 * What a schema finds wrong with a value, in the words of Kubernetes. What was the same in `old` is taken as it is, so that an object that was valid once can still be changed after its
 * schema became stricter.
 */
export function validateValue(schema: Structural, value: Json, path: string, old?: Json): Problem[] {
  if (old !== undefined && sameJson(value, old)) return [];
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

/** Problems after which rules of CEL are not asked: the value has not the form that they count on. */
export function blocksRules({ reason }: Problem): boolean {
  return [
    "FieldValueNotSupported",
    "FieldValueRequired",
    "FieldValueTooLong",
    "FieldValueTooMany",
    "FieldValueTypeInvalid",
  ].includes(reason);
}

function typesOf(schema: Structural): string[] {
  if (isIntOrString(schema)) return ["integer", "string"];
  const type = textAt(schema, "type");
  return type === "" ? [] : [type];
}

function checkType(schema: Structural, value: Json, path: string): Problem[] {
  const types = typesOf(schema);
  const format = textAt(schema, "format");
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

function typeName(value: Json): string {
  if (value === null) return "null";
  if (isList(value)) return "array";
  if (isObject(value)) return "object";
  if (typeof value === "number") return Number.isInteger(value) ? "integer" : "number";
  return typeof value;
}

/** As Go names what holds a value. */
function formatName(value: Json): string {
  if (typeof value !== "number") return "";
  return Number.isInteger(value) ? "int64" : "float64";
}

function wrongType(path: string, wanted: string, actual: string): Problem {
  const said = actual === "" ? "" : `: ${JSON.stringify(actual)}`;
  const message = `Invalid value: ${JSON.stringify(actual)}: ${path} in body must be of type ${wanted}${said}`;
  return { field: fieldOf(path), reason: "FieldValueTypeInvalid", message };
}

function checkText(schema: Structural, value: string, path: string): Problem[] {
  const longest = numberAt(schema, "maxLength");
  const shortest = numberAt(schema, "minLength");
  const pattern = textAt(schema, "pattern");
  const format = FORMATS[textAt(schema, "format")];
  const length = longest === undefined && shortest === undefined ? 0 : [...value].length;
  const problems: Problem[] = [];
  if (longest !== undefined && length > longest) {
    const message = `Too long: may not be more than ${longest} bytes`;
    problems.push({ field: fieldOf(path), reason: "FieldValueTooLong", message });
  } else if (shortest !== undefined && length < shortest) {
    problems.push(wrong(path, value, `should be at least ${shortest} chars long`));
  } else if (pattern !== "" && compilePattern(pattern)?.test(value) === false) {
    problems.push(wrong(path, value, `should match '${pattern}'`));
  }
  if (format?.(value) === false) {
    const because = `${path} in body must be of type ${textAt(schema, "format")}: ${JSON.stringify(value)}`;
    const message = `Invalid value: ${JSON.stringify(value)}: ${because}`;
    problems.push({ field: fieldOf(path), reason: "FieldValueTypeInvalid", message });
  }
  return problems;
}

function checkNumber(schema: Structural, value: number, path: string): Problem[] {
  const { exclusiveMaximum, exclusiveMinimum } = schema;
  const maximum = numberAt(schema, "maximum");
  const minimum = numberAt(schema, "minimum");
  const factor = numberAt(schema, "multipleOf");
  const format = textAt(schema, "format");
  const problems: Problem[] = [];
  if (
    format === "int32" &&
    textAt(schema, "type") === "integer" &&
    (Math.abs(value) > INT32_MAX || !Number.isInteger(value))
  ) {
    problems.push(nowhere(`Checked value must be of type integer with format int32 in ${path}`));
  }
  if (factor !== undefined && !Number.isInteger(Number((value / factor).toFixed(9)))) {
    problems.push(wrong(path, value, `should be a multiple of ${factor}`));
  }
  if (maximum !== undefined && (exclusiveMaximum === true ? value >= maximum : value > maximum)) {
    const relation = exclusiveMaximum === true ? "less than" : "less than or equal to";
    problems.push(wrong(path, value, `should be ${relation} ${maximum}`));
  }
  if (minimum !== undefined && (exclusiveMinimum === true ? value <= minimum : value < minimum)) {
    const relation = exclusiveMinimum === true ? "greater than" : "greater than or equal to";
    problems.push(wrong(path, value, `should be ${relation} ${minimum}`));
  }
  return problems;
}

function checkList(schema: Structural, value: readonly Json[], path: string, old?: readonly Json[]): Problem[] {
  const most = numberAt(schema, "maxItems");
  const least = numberAt(schema, "minItems");
  const items = itemSchema(schema);
  const inItems =
    items === undefined
      ? []
      : value.flatMap((item, index) => {
          const before = old === undefined ? undefined : correlate(schema, item, old);
          return validateValue(items, item, `${path}[${index}]`, before);
        });
  return [
    ...inItems,
    ...(least !== undefined && value.length < least
      ? [wrong(path, value.length, `should have at least ${least} items`)]
      : []),
    ...(most !== undefined && value.length > most ? [tooMany(path, value.length, most)] : []),
    ...(schema["uniqueItems"] === true && new Set(value.map((item) => JSON.stringify(item))).size < value.length
      ? [wrong(path, "", "shouldn't contain duplicates")]
      : []),
  ];
}

function checkEnum(schema: Structural, value: Json, path: string): Problem[] {
  const choice = schema["enum"];
  if (!isList(choice) || choice.some((one) => sameJson(one, value))) return [];
  const supported = choice.map((one) => JSON.stringify(typeof one === "string" ? one : JSON.stringify(one)));
  const message = `Unsupported value: ${JSON.stringify(value)}: supported values: ${supported.join(", ")}`;
  return [{ field: fieldOf(path), reason: "FieldValueNotSupported", message }];
}

function checkObject(schema: Structural, value: JsonObject, path: string, old?: JsonObject): Problem[] {
  const size = Object.keys(value).length;
  const most = numberAt(schema, "maxProperties");
  const least = numberAt(schema, "minProperties");
  const properties = objectAt(schema, "properties");
  const rest = schema["additionalProperties"];
  const join = (key: string): string => (path === "" ? key : `${path}.${key}`);
  const before = (key: string): Json | undefined =>
    old !== undefined && Object.hasOwn(old, key) ? old[key] : undefined;
  const inFields = Object.entries(value).flatMap(([key, child]) => {
    const property = Object.hasOwn(properties, key) ? properties[key] : rest;
    return isObject(property) ? validateValue(property, child, join(key), before(key)) : [];
  });
  const missing = textsAt(schema, "required").filter((key) => !Object.hasOwn(value, key));
  return [
    ...(least !== undefined && size < least ? [wrong(path, size, `should have at least ${least} properties`)] : []),
    ...(most !== undefined && size > most ? [tooMany(path, size, most)] : []),
    ...inFields,
    ...missing.map((key) => required(join(key))),
  ];
}

function checkCombinations(schema: Structural, value: Json, path: string): Problem[] {
  const alternatives = (key: string): Problem[][] =>
    listAt(schema, key).flatMap((one) => (isObject(one) ? [validateValue(one, value, path)] : []));
  const any = alternatives("anyOf");
  const one = alternatives("oneOf");
  const all = alternatives("allOf");
  const not = schema["not"];
  const problems: Problem[] = [];
  if (any.length > 0 && any.every((found) => found.length > 0)) {
    problems.push(nowhere(`${quoted(path)} must validate at least one schema (anyOf)`), ...fewest(any));
  }
  const valid = one.filter((found) => found.length === 0).length;
  if (one.length > 0 && valid !== 1) {
    const found = valid === 0 ? "Found none valid" : `Found ${valid} valid alternatives`;
    problems.push(nowhere(`${quoted(path)} must validate one and only one schema (oneOf). ${found}`));
    if (valid === 0) problems.push(...fewest(one));
  }
  if (all.some((found) => found.length > 0)) {
    const none = all.every((found) => found.length > 0) ? ". None validated" : "";
    problems.push(...all.flat(), nowhere(`${quoted(path)} must validate all the schemas (allOf)${none}`));
  }
  if (isObject(not) && validateValue(not, value, path).length === 0) {
    problems.push(nowhere(`${quoted(path)} must not validate the schema (not)`));
  }
  return problems;
}

/** Of several ways to fail, the one that comes nearest. */
function fewest(found: readonly (readonly Problem[])[]): readonly Problem[] {
  return found.toSorted((a, b) => a.length - b.length)[0] ?? [];
}

function quoted(path: string): string {
  return JSON.stringify(path);
}

function wrong(path: string, value: Json, because: string): Problem {
  return invalidValue(fieldOf(path), value, `${path} in body ${because}`);
}

function tooMany(path: string, actual: number, most: number): Problem {
  const message = `Too many: ${actual}: must have at most ${most} items`;
  return { field: fieldOf(path), reason: "FieldValueTooMany", message };
}

/** Some checks of Kubernetes do not tell the field. */
function nowhere(because: string): Problem {
  return invalidValue("<nil>", "", because);
}

function fieldOf(path: string): string {
  return path === "" ? "<nil>" : path;
}
