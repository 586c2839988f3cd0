import type { Environment } from "@marcbachmann/cel-js";
import { Optional } from "@marcbachmann/cel-js";
import { isList, isObject, type Json, type JsonObject, listAt, objectAt, sameJson, textAt } from "../json.ts";
import { forbiddenValue, type Problem, required } from "../status.ts";
import { ruleEnvironment } from "./rule-library.ts";
import { type RuleType, typeDeclarer } from "./rule-types.ts";
import { correlate, fieldSchema, itemSchema, type Structural } from "./structural.ts";

/** What is wrong with a rule itself: the field of the rule, and why. */
export type RuleDefect = {
  readonly rule: JsonObject;
  readonly field: "rule" | "messageExpression";
  readonly because: string;
};

/** The rules of one schema, compiled. */
export type Rules = {
  /** What the rules find wrong with an object; `old` is its state before, for rules about changes. */
  validate(object: JsonObject, old: JsonObject | undefined): Problem[];
  readonly defined: boolean;
  /** Rules that cannot be compiled. */
  readonly defects: readonly RuleDefect[];
};

type Program = (context: Record<string, unknown>) => unknown;
type Rule = {
  readonly source: JsonObject;
  readonly program: Program | undefined;
  readonly message: Program | undefined;
  readonly usesOld: boolean;
};
type Node = { readonly type: RuleType; readonly rules: readonly Rule[] };

const SELF = "self";
const OLD = "oldSelf";

/** Compiles `x-kubernetes-validations` of a schema and of all that is in it. */
export function compileRules(root: Structural): Rules {
  const holders = schemasWithRules(root);
  if (holders.length === 0) return { validate: () => [], defined: false, defects: [] };
  const environment = ruleEnvironment();
  const declare = typeDeclarer(environment, root);
  const types = holders.map((schema) => [schema, declare(schema)] as const);
  const defects: RuleDefect[] = [];
  const nodes = new Map(
    types.map(([schema, type]) => {
      const rules = listAt(schema, "x-kubernetes-validations").filter(isObject);
      return [schema, { type, rules: rules.map((rule) => compileRule(environment, type, rule, defects)) }] as const;
    }),
  );
  const inside = new Set<Structural>();
  collectPaths(root, nodes, inside);
  return { validate: (object, old) => validate({ nodes, inside }, root, object, "", old), defined: true, defects };
}

function childrenOf(schema: Structural): Structural[] {
  const rest = schema["additionalProperties"];
  const items = itemSchema(schema);
  return [
    ...Object.values(objectAt(schema, "properties")).filter(isObject),
    ...(isObject(rest) ? [rest] : []),
    ...(items === undefined ? [] : [items]),
  ];
}

function schemasWithRules(schema: Structural): Structural[] {
  const own = listAt(schema, "x-kubernetes-validations").length > 0 ? [schema] : [];
  return [...own, ...childrenOf(schema).flatMap(schemasWithRules)];
}

/** Finds the schemas that have rules in them, so that whole parts of an object can be passed over. */
function collectPaths(schema: Structural, nodes: ReadonlyMap<Structural, Node>, inside: Set<Structural>): boolean {
  const below = childrenOf(schema).map((child) => collectPaths(child, nodes, inside));
  const found = nodes.has(schema) || below.includes(true);
  if (found) inside.add(schema);
  return found;
}

function compileRule(environment: Environment, type: RuleType, source: JsonObject, defects: RuleDefect[]): Rule {
  const optionalOld = source["optionalOldSelf"] === true;
  const scope = environment
    .clone()
    .registerVariable(SELF, type.name)
    .registerVariable(OLD, optionalOld ? `optional<${type.name}>` : type.name);
  const compile = (field: RuleDefect["field"], wanted: string): Program | undefined => {
    const text = textAt(source, field);
    if (text.trim() === "") return undefined;
    const found = compileExpression(scope, text, field, wanted);
    if ("program" in found) return found.program;
    defects.push({ rule: source, field, because: found.because });
    return undefined;
  };
  const text = textAt(source, "rule");
  return {
    source,
    program: compile("rule", "bool"),
    message: compile("messageExpression", "string"),
    usesOld: /\boldSelf\b/.test(text.replace(/"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'/g, "")),
  };
}

type Compiled = { readonly program: Program } | { readonly because: string };

function compileExpression(scope: Environment, text: string, field: string, wanted: string): Compiled {
  const prefix = field === "rule" ? "" : "messageExpression ";
  try {
    const parsed = scope.parse(text);
    const checked = parsed.check();
    if (!checked.valid) {
      return { because: `${prefix}compilation failed: ERROR: <input>: ${checked.error?.summary ?? "invalid"}` };
    }
    if (checked.type !== wanted && checked.type !== "dyn") {
      const subject =
        field === "rule" ? "cel expression must evaluate to a bool" : "messageExpression must evaluate to a string";
      return { because: subject };
    }
    return { program: parsed };
  } catch (error) {
    return { because: `${prefix}compilation failed: ERROR: <input>: ${summaryOf(error)}` };
  }
}

function summaryOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return "summary" in error && typeof error.summary === "string" ? error.summary : error.message;
}

type CompiledRules = { readonly nodes: ReadonlyMap<Structural, Node>; readonly inside: ReadonlySet<Structural> };

function validate(
  compiled: CompiledRules,
  schema: Structural,
  value: Json,
  path: string,
  old: Json | undefined,
): Problem[] {
  if (value === null || !compiled.inside.has(schema)) return [];
  const before = old === null ? undefined : old;
  const node = compiled.nodes.get(schema);
  const own = node === undefined ? [] : runRules(node, schema, value, path, before);
  const below = (child: Structural, next: Json, place: string, earlier: Json | undefined): Problem[] =>
    validate(compiled, child, next, place, earlier);
  if (isList(value)) {
    const items = itemSchema(schema);
    const earlier = isList(before) ? before : [];
    if (items === undefined) return own;
    return [
      ...own,
      ...value.flatMap((item, index) => below(items, item, `${path}[${index}]`, correlate(schema, item, earlier))),
    ];
  }
  if (!isObject(value)) return own;
  const properties = objectAt(schema, "properties");
  return [
    ...own,
    ...Object.entries(value).flatMap(([key, child]) => {
      const field = fieldSchema(schema, key);
      if (field === undefined) return [];
      const named = path === "" ? key : `${path}.${key}`;
      const place = Object.hasOwn(properties, key) ? named : `${path}[${key}]`;
      const earlier = isObject(before) && Object.hasOwn(before, key) ? before[key] : undefined;
      return below(field, child, place, earlier);
    }),
  ];
}

function runRules(
  { type, rules }: Node,
  schema: Structural,
  value: Json,
  path: string,
  old: Json | undefined,
): Problem[] {
  const self = type.convert(value);
  const before = old === undefined ? undefined : type.convert(old);
  const unchanged = old !== undefined && sameJson(value, old);
  return rules.flatMap((rule) => {
    const optionalOld = rule.source["optionalOldSelf"] === true;
    if (rule.program === undefined || (rule.usesOld && before === undefined && !optionalOld)) return [];
    const wrapped = before === undefined ? Optional.none() : Optional.of(before);
    const context = { [SELF]: self, [OLD]: optionalOld ? wrapped : before };
    const found = runRule(rule, context, schema, value, path);
    // What was accepted once stays acceptable, but for rules that are about changes.
    return found === undefined || (unchanged && !rule.usesOld) ? [] : [found];
  });
}

function runRule(
  { program, message, source }: Rule,
  context: Record<string, unknown>,
  schema: Structural,
  value: Json,
  path: string,
): Problem | undefined {
  let passed: unknown;
  try {
    passed = program?.(context);
  } catch (error) {
    const because = `${summaryOf(error).replace(/^No such/, "no such")} evaluating rule: ${describeRule(source)}`;
    const type = textAt(schema, "type");
    return {
      field: orNil(path),
      reason: "FieldValueInvalid",
      message: `Invalid value: ${JSON.stringify(type)}: ${because}`,
    };
  }
  if (passed === true) return undefined;
  const because = evaluateMessage(message, context) ?? defaultMessage(source);
  return problemOf(source, schema, value, orNil(path + textAt(source, "fieldPath")), because);
}

function orNil(path: string): string {
  return path === "" ? "<nil>" : path.replace(/^\./, "");
}

/** A message that cannot be made, or is none, is as if there were no expression. */
function evaluateMessage(message: Program | undefined, context: Record<string, unknown>): string | undefined {
  if (message === undefined) return undefined;
  try {
    const text = message(context);
    return typeof text === "string" && text.trim() !== "" && !text.includes("\n") ? text.trim() : undefined;
  } catch {
    return undefined;
  }
}

function describeRule(source: JsonObject): string {
  return (textAt(source, "message") || textAt(source, "rule")).trim();
}

function defaultMessage(source: JsonObject): string {
  const message = textAt(source, "message").trim();
  return message === "" ? `failed rule: ${describeRule(source)}` : message;
}

function problemOf(source: JsonObject, schema: Structural, value: Json, field: string, because: string): Problem {
  const isWhole = ["object", "array"].includes(textAt(schema, "type"));
  const shown = isWhole ? "" : `: ${JSON.stringify(value)}`;
  switch (textAt(source, "reason")) {
    case "FieldValueForbidden":
      return forbiddenValue(field, because);
    case "FieldValueRequired":
      return required(field, because);
    case "FieldValueDuplicate":
      return { field, reason: "FieldValueDuplicate", message: `Duplicate value${shown}` };
    default:
      return { field, reason: "FieldValueInvalid", message: `Invalid value${shown}: ${because}` };
  }
}
