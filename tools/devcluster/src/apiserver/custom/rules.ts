import type { Environment } from "@marcbachmann/cel-js";
import { isList, isObject, type Json, type JsonObject, listAt, objectAt, sameJson, textAt } from "../json.ts";
import type { Problem } from "../status.ts";
import { ruleEnvironment } from "./rule-library.ts";
import { type RuleType, typeDeclarer } from "./rule-types.ts";
import { correlate, fieldSchema, itemSchema, type Structural } from "./structural.ts";

/** A rule that cannot be compiled, and why. */
export type RuleDefect = {
  readonly rule: JsonObject;
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
  const scope = environment.clone().registerVariable(SELF, type.name).registerVariable(OLD, type.name);
  const text = textAt(source, "rule");
  const compiled = compileExpression(scope, text);
  if ("because" in compiled) defects.push({ rule: source, because: compiled.because });
  return {
    source,
    program: "program" in compiled ? compiled.program : undefined,
    usesOld: /\boldSelf\b/.test(text.replace(/"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'/g, "")),
  };
}

type Compiled = { readonly program: Program } | { readonly because: string };

function compileExpression(scope: Environment, text: string): Compiled {
  try {
    const parsed = scope.parse(text);
    const checked = parsed.check();
    if (!checked.valid) return { because: checked.error?.summary ?? "invalid" };
    if (checked.type !== "bool" && checked.type !== "dyn") return { because: "it must evaluate to a bool" };
    return { program: parsed };
  } catch (error) {
    return { because: summaryOf(error) };
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
    if (rule.program === undefined || (rule.usesOld && before === undefined)) return [];
    const found = runRule(rule, { [SELF]: self, [OLD]: before }, { schema, value, path });
    // What was accepted once stays acceptable, but for rules that are about changes.
    return found === undefined || (unchanged && !rule.usesOld) ? [] : [found];
  });
}

function runRule(
  { program, source }: Rule,
  context: Record<string, unknown>,
  { schema, value, path }: { readonly schema: Structural; readonly value: Json; readonly path: string },
): Problem | undefined {
  const type = textAt(schema, "type");
  const rule = textAt(source, "message").trim() || textAt(source, "rule").trim();
  let passed: unknown;
  try {
    passed = program?.(context);
  } catch (error) {
    const because = `${summaryOf(error).replace(/^No such/, "no such")} evaluating rule: ${rule}`;
    return {
      field: orNil(path),
      reason: "FieldValueInvalid",
      message: `Invalid value: ${JSON.stringify(type)}: ${because}`,
    };
  }
  if (passed === true) return undefined;
  const because = textAt(source, "message").trim() === "" ? `failed rule: ${rule}` : rule;
  const shown = ["object", "array"].includes(type) ? "" : ` ${JSON.stringify(value)}:`;
  return {
    field: orNil(path + textAt(source, "fieldPath")),
    reason: "FieldValueInvalid",
    message: `Invalid value:${shown} ${because}`,
  };
}

function orNil(path: string): string {
  return path === "" ? "<nil>" : path.replace(/^\./, "");
}
