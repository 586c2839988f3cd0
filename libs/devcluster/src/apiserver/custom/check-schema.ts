import {
  at,
  isList,
  isObject,
  type Json,
  type JsonObject,
  listAt,
  objectAt,
  sameJson,
  textAt,
  textsAt,
  without,
} from "../json.ts";
import { forbiddenValue, invalidValue, type Problem, required, unsupported } from "../status.ts";
import { fillDefaults } from "./fill-defaults.ts";
import { prune } from "./prune.ts";
import { compilePattern } from "./pattern.ts";
import { compileRules, type RuleDefect } from "./rules.ts";
import { fieldSchema, isIntOrString, itemSchema, keepsUnknown, type Structural } from "./structural.ts";
import { validateValue } from "./validate-value.ts";

const TYPES = ["array", "boolean", "integer", "number", "object", "string"];
const UNSUPPORTED = [
  "$ref",
  "definitions",
  "dependencies",
  "deprecated",
  "discriminator",
  "id",
  "patternProperties",
  "readOnly",
  "writeOnly",
  "xml",
  "$schema",
];
const REASONS = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
const INT_OR_STRING_ANY_OF = [{ type: "integer" }, { type: "string" }];

/** What is wrong with the schema of a version, in the words of Kubernetes. `field` is where it stands. */
export function checkSchema(schema: Structural, field: string): Problem[] {
  const structural = [...checkRoot(schema, field), ...checkNode(schema, field, true)];
  // Rules and defaults are looked at once it is clear what they are about.
  if (structural.length > 0) return structural;
  const problems = [...checkDefaults(schema, field), ...checkRules(schema, field, checkRule)];
  if (problems.length > 0) return problems;
  const { defects } = compileRules(schema);
  return defects.length === 0
    ? []
    : checkRules(schema, field, (_schema, rule, place) => describeDefects(rule, place, defects));
}

function checkRoot(schema: Structural, field: string): Problem[] {
  const type = textAt(schema, "type");
  const metadata = Object.keys(objectAt(schema, "properties", "metadata", "properties"));
  return [
    ...(type === "" ? [required(`${field}.type`, "must not be empty at the root")] : []),
    ...(type !== "" && type !== "object" ? [invalidValue(`${field}.type`, type, "must be object at the root")] : []),
    ...(schema["nullable"] === true
      ? [forbiddenValue(`${field}.nullable`, "nullable cannot be true at the root")]
      : []),
    ...(metadata.some((key) => key !== "name" && key !== "generateName")
      ? [
          forbiddenValue(
            `${field}.properties[metadata]`,
            "must not specify anything other than name and generateName, but metadata is implicitly specified",
          ),
        ]
      : []),
  ];
}

function checkNode(schema: Structural, field: string, isRoot = false): Problem[] {
  const type = textAt(schema, "type");
  const rest = schema["additionalProperties"];
  const items = schema["items"];
  const pattern = textAt(schema, "pattern");
  const untyped =
    type === "" && schema["$ref"] === undefined && !isRoot && !isIntOrString(schema) && !keepsUnknown(schema);
  const problems: Problem[] = UNSUPPORTED.filter((key) => schema[key] !== undefined).map((key) =>
    forbiddenValue(`${field}.${key}`, `${key} is not supported`),
  );
  const refuse = (condition: boolean, problem: () => Problem): void => {
    if (condition) problems.push(problem());
  };
  refuse(untyped, () => required(`${field}.type`, `must not be empty for specified ${emptyTypeOf(field)}`));
  refuse(type !== "" && !TYPES.includes(type), () => unsupported(`${field}.type`, type, TYPES));
  refuse(type === "array" && items === undefined, () => required(`${field}.items`, "must be specified"));
  refuse(isList(items), () => forbiddenValue(`${field}.items`, "items must be a schema object and not an array"));
  refuse(schema["uniqueItems"] === true, () =>
    forbiddenValue(
      `${field}.uniqueItems`,
      "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
    ),
  );
  refuse(rest !== undefined && Object.keys(objectAt(schema, "properties")).length > 0, () =>
    forbiddenValue(`${field}.additionalProperties`, "additionalProperties and properties are mutual exclusive"),
  );
  refuse(schema["x-kubernetes-preserve-unknown-fields"] === false, () =>
    invalidValue(`${field}.x-kubernetes-preserve-unknown-fields`, false, "must be true or undefined"),
  );
  refuse(pattern !== "" && compilePattern(pattern) === undefined, () =>
    invalidValue(`${field}.pattern`, pattern, "must be a valid regular expression, but isn't"),
  );
  problems.push(...checkListType(schema, field), ...checkNested(schema, field));
  for (const [key, child] of Object.entries(objectAt(schema, "properties"))) {
    if (isObject(child)) problems.push(...checkNode(child, `${field}.properties[${key}]`));
  }
  if (isObject(rest)) problems.push(...checkNode(rest, `${field}.additionalProperties`));
  if (isObject(items)) problems.push(...checkNode(items, `${field}.items`));
  return problems;
}

function emptyTypeOf(field: string): string {
  return field.endsWith(".items") ? "array items" : "object fields";
}

function checkListType(schema: Structural, field: string): Problem[] {
  const type = textAt(schema, "x-kubernetes-list-type");
  const items = itemSchema(schema) ?? {};
  const keys = textsAt(schema, "x-kubernetes-list-map-keys");
  const keysField = `${field}.x-kubernetes-list-map-keys`;
  if (type === "set" && ["object", "array"].includes(textAt(items, "type"))) {
    const extension = textAt(items, "type") === "object" ? "map" : "list";
    if (textAt(items, `x-kubernetes-${extension}-type`) === "atomic") return [];
    const because = "must be atomic as item of a list with x-kubernetes-list-type=set";
    return [invalidValue(`${field}.items.x-kubernetes-${extension}-type`, null, because)];
  }
  if (type !== "map") return [];
  if (keys.length === 0) return [required(keysField, "must not be empty if x-kubernetes-list-type is map")];
  return keys.flatMap((name, index): Problem[] => {
    const property = at(items, "properties", name);
    if (!isObject(property)) {
      return [invalidValue(`${keysField}[${index}]`, name, "entries must all be names of item properties")];
    }
    if (property["default"] !== undefined || listAt(items, "required").includes(name)) return [];
    const because =
      "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
    return [required(`${field}.items.properties[${name}].default`, because)];
  });
}

/** Inside of anyOf and its like, only what restricts values is allowed; what they are is said outside. */
function checkNested(schema: Structural, field: string): Problem[] {
  const branches = ["allOf", "anyOf", "oneOf"].flatMap((key) =>
    listAt(schema, key).map((branch, index) => [branch, `${field}.${key}[${index}]`] as const),
  );
  const not = schema["not"];
  const isUsual = isIntOrString(schema) && sameJson(schema["anyOf"], INT_OR_STRING_ANY_OF);
  return [...branches, ...(not === undefined ? [] : [[not, `${field}.not`] as const])].flatMap(([branch, place]) =>
    isObject(branch) && !(isIntOrString(schema) && (isUsual || place.includes(".allOf[")))
      ? checkBranch(branch, place)
      : [],
  );
}

function checkBranch(schema: Structural, field: string): Problem[] {
  const forbidden = ["type", "description", "default", "nullable", "additionalProperties"]
    .filter((key) => schema[key] !== undefined && schema[key] !== "")
    .map((key) =>
      forbiddenValue(
        `${field}.${key}`,
        key === "default" || key === "type" || key === "description"
          ? "must be empty to be structural"
          : "must be undefined to be structural",
      ),
    );
  const below = Object.entries(objectAt(schema, "properties")).flatMap(([key, child]) =>
    isObject(child) ? checkBranch(child, `${field}.properties[${key}]`) : [],
  );
  return [...forbidden, ...below];
}

function checkDefaults(schema: Structural, field: string): Problem[] {
  const value = schema["default"];
  const own = value === undefined || value === null ? [] : checkDefault(schema, value, `${field}.default`);
  return [...own, ...childrenOf(schema, field).flatMap(([child, place]) => checkDefaults(child, place))];
}

function checkDefault(schema: Structural, value: Json, field: string): Problem[] {
  const filled = fillDefaults(without(schema, "default"), value);
  const unknown = isObject(value)
    ? prune({ ...schema, properties: objectAt(schema, "properties") }, value).unknown
    : [];
  if (unknown.length > 0) return [invalidValue(field, value, `must not have unknown fields`)];
  return validateValue(schema, filled, "").map((problem) => ({
    ...problem,
    field: problem.field === "<nil>" ? field : `${field}.${problem.field}`,
  }));
}

function childrenOf(schema: Structural, field: string): [schema: Structural, field: string][] {
  const rest = schema["additionalProperties"];
  const items = itemSchema(schema);
  const properties = Object.entries(objectAt(schema, "properties"));
  return [
    ...properties.flatMap(([key, child]): [Structural, string][] =>
      isObject(child) ? [[child, `${field}.properties[${key}]`]] : [],
    ),
    ...(isObject(rest) ? [[rest, `${field}.additionalProperties`] satisfies [Structural, string]] : []),
    ...(items === undefined ? [] : [[items, `${field}.items`] satisfies [Structural, string]]),
  ];
}

type RuleCheck = (schema: Structural, rule: JsonObject, field: string) => Problem[];

function checkRules(schema: Structural, field: string, check: RuleCheck): Problem[] {
  const own = listAt(schema, "x-kubernetes-validations")
    .filter(isObject)
    .flatMap((rule, index) => check(schema, rule, `${field}.x-kubernetes-validations[${index}]`));
  return [...own, ...childrenOf(schema, field).flatMap(([child, place]) => checkRules(child, place, check))];
}

function checkRule(schema: Structural, rule: JsonObject, field: string): Problem[] {
  const message = rule["message"];
  const reason = textAt(rule, "reason");
  const path = textAt(rule, "fieldPath");
  const problems: Problem[] = [];
  if (textAt(rule, "rule").trim() === "") problems.push(required(`${field}.rule`, "rule is not specified"));
  if (typeof message === "string" && message !== "" && message.trim() === "") {
    problems.push(invalidValue(`${field}.message`, message, "must be non-empty if specified"));
  } else if (typeof message === "string" && message.trim().includes("\n")) {
    problems.push(invalidValue(`${field}.message`, message, "must not contain line breaks"));
  }
  if (reason !== "" && !REASONS.includes(reason)) problems.push(unsupported(`${field}.reason`, reason, REASONS));
  if (path !== "" && !leadsSomewhere(schema, path)) {
    problems.push(invalidValue(`${field}.fieldPath`, path, "must be a valid path"));
  }
  return problems;
}

function describeDefects(rule: JsonObject, field: string, defects: readonly RuleDefect[]): Problem[] {
  return defects
    .filter((defect) => defect.rule === rule)
    .map((defect) => invalidValue(`${field}.${defect.field}`, ruleValue(rule, defect), defect.because));
}

/** Kubernetes shows the whole rule, in its own form, when the expression is wrong. */
function ruleValue(rule: JsonObject, { field }: RuleDefect): Json {
  if (field !== "rule") return textAt(rule, field);
  return {
    Rule: textAt(rule, "rule"),
    Message: textAt(rule, "message"),
    MessageExpression: textAt(rule, "messageExpression"),
    Reason: rule["reason"] ?? null,
    FieldPath: textAt(rule, "fieldPath"),
    OptionalOldSelf: rule["optionalOldSelf"] ?? null,
  };
}

/** `.spec.name` or `['some.key'].field`, through fields that the schema has. */
export function leadsSomewhere(schema: Structural, path: string): boolean {
  const steps = [...path.matchAll(/\.([^.[\]]+)|\['((?:\\.|[^'\\])*)'\]/gy)];
  if (steps.map(([text]) => text).join("") !== path || steps.length === 0) return false;
  let current: Structural | undefined = schema;
  for (const [, field, key] of steps) {
    current = current === undefined ? undefined : fieldSchema(current, field ?? key ?? "");
  }
  return current !== undefined;
}
