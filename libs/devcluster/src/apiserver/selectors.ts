import type { JsonObject } from "./json.ts";
import { objectAt } from "./json.ts";
import { badRequest, fail, type Failure } from "./status.ts";
import { checkLabelKey, checkLabelValue } from "./names.ts";

export type Requirement =
  | { readonly key: string; readonly operator: "in" | "notin"; readonly values: readonly string[] }
  | { readonly key: string; readonly operator: "exists" | "absent" }
  | { readonly key: string; readonly operator: "gt" | "lt"; readonly bound: number };

export type LabelSelector = readonly Requirement[];

/** `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1`. Fails with 400 and Kubernetes' words. An empty text selects everything. */
export function parseLabelSelector(text: string): LabelSelector {
  const tokens = tokenize(text);
  const requirements: Requirement[] = [];
  let position = 0;
  const peek = (): string => tokens[position] ?? "";
  const next = (): string => tokens[position++] ?? "";
  if (tokens.length === 0) return requirements;
  for (;;) {
    requirements.push(parseRequirement(peek, next));
    const separator = next();
    if (separator === "") return requirements;
    if (separator !== ",") refuse(`found '${separator}', expected: ',' or 'end of string'`);
    if (peek() === "") refuse("found '', expected: identifier after ','");
  }
}

/** Whether labels meet every requirement. A label that is absent meets `!=` and `notin`, as in Kubernetes. */
export function matchesLabels(selector: LabelSelector, labels: JsonObject): boolean {
  return selector.every((requirement) => {
    const value = Object.hasOwn(labels, requirement.key) ? labels[requirement.key] : undefined;
    switch (requirement.operator) {
      case "in":
        return typeof value === "string" && requirement.values.includes(value);
      case "notin":
        return typeof value !== "string" || !requirement.values.includes(value);
      case "exists":
        return value !== undefined;
      case "absent":
        return value === undefined;
      case "gt":
        return isInteger(value) && Number(value) > requirement.bound;
      case "lt":
        return isInteger(value) && Number(value) < requirement.bound;
    }
  });
}

export function labelsOf(object: JsonObject): JsonObject {
  return objectAt(object, "metadata", "labels");
}

function isInteger(value: unknown): value is string {
  return typeof value === "string" && /^-?\d+$/.test(value);
}

function tokenize(text: string): string[] {
  return text.match(/==|!=|=|!|,|\(|\)|<|>|[^\s=!,()<>]+/g) ?? [];
}

function parseRequirement(peek: () => string, next: () => string): Requirement {
  if (peek() === "!") {
    next();
    return { key: identifier(next()), operator: "absent" };
  }
  const key = identifier(next());
  const operator = peek();
  switch (operator) {
    case "":
    case ",":
      return { key, operator: "exists" };
    case "=":
    case "==":
      next();
      return { key, operator: "in", values: [plainValue(peek, next)] };
    case "!=":
      next();
      return { key, operator: "notin", values: [plainValue(peek, next)] };
    case "in":
    case "notin":
      next();
      return { key, operator, values: valueList(peek, next) };
    case ">":
    case "<":
      next();
      return { key, operator: operator === ">" ? "gt" : "lt", bound: bound(next()) };
    default:
      return refuse(`found '${operator}', expected: in, notin, =, ==, !=, gt, lt`);
  }
}

function valueList(peek: () => string, next: () => string): string[] {
  const open = next();
  if (open !== "(") refuse(`found '${open}', expected: '('`);
  const values: string[] = [];
  for (;;) {
    values.push(plainValue(peek, next));
    const separator = next();
    if (separator === ")") return values;
    const isNothing = separator === "" && values.length === 1 && values[0] === "";
    if (isNothing) refuse("found '', expected: ',', ')' or identifier");
    if (separator !== ",") refuse(`found '${separator}', expected: ',' or ')'`);
  }
}

/** Empty before a separator: `a=` selects the empty value. */
function plainValue(peek: () => string, next: () => string): string {
  if (peek() === "" || peek() === "," || peek() === ")") return "";
  const value = next();
  const problem = /^[=!(<>]/.test(value) ? `found '${value}', expected: identifier` : checkLabelValue(value);
  return problem === undefined ? value : refuse(problem);
}

function identifier(token: string): string {
  if (token === "" || /^[=!,()<>]/.test(token)) refuse(`found '${token}', expected: !, identifier, or 'end of string'`);
  const problem = checkLabelKey(token);
  return problem === undefined ? token : refuse(problem);
}

function bound(token: string): number {
  if (/^-?\d+$/.test(token)) return Number(token);
  return refuse(`found '${token}', for 'Gt', 'Lt' operators, the value must be an integer`);
}

function refuse(because: string): never {
  return fail(badRequest(`unable to parse requirement: ${because}`));
}

export type FieldRequirement = { readonly field: string; readonly equal: boolean; readonly value: string };
export type FieldSelector = readonly FieldRequirement[];

/** How each field that may be selected is read off an object. */
export type SelectableFields = Readonly<Record<string, (object: JsonObject) => string>>;

/** `metadata.name=a,spec.nodeName!=b`, with `\,` `\=` `\\` escaped in values. Fails with 400 for a field that the resource cannot be selected by. */
export function parseFieldSelector(text: string, fields: SelectableFields): FieldSelector {
  return splitUnescaped(text)
    .filter((term) => term !== "")
    .map((term) => {
      const parts = /^([^=!]+)(==|!=|=)(.*)$/s.exec(term);
      const [, field = "", operator = "", value = ""] = parts ?? [];
      if (parts === null) fail(badRequest(`invalid selector: '${term}'; can't understand '${term}'`));
      if (!Object.hasOwn(fields, field)) fail(unknownField(field, Object.keys(fields)));
      return { field, equal: operator !== "!=", value: value.replace(/\\([\\,=])/g, "$1") };
    });
}

/** Kubernetes words it in one way for resources with fields of their own, and in another for the rest. */
function unknownField(field: string, known: readonly string[]): Failure {
  const isPlain = known.every((name) => name === "metadata.name" || name === "metadata.namespace");
  if (!isPlain) return badRequest(`field label not supported: ${field}`);
  return badRequest(`"${field}" is not a known field selector: only "metadata.name", "metadata.namespace"`);
}

export function matchesFields(selector: FieldSelector, object: JsonObject, fields: SelectableFields): boolean {
  return selector.every(({ field, equal, value }) => (fields[field]?.(object) === value) === equal);
}

function splitUnescaped(text: string): string[] {
  return text.match(/(?:\\.|[^,\\])+/gs) ?? [];
}
