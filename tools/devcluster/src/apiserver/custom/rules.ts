import { Environment } from "@marcbachmann/cel-js";
import { isList, isObject, type JsonValue, type JsonObject, getList, getObject, isSameJson, getText } from "../json.ts";
import type { Problem } from "../status.ts";
import { listChildren, correlateItems, findFieldSchema, findItemSchema, type StructuralSchema } from "./structural.ts";

/** A rule that this server cannot evaluate. */
export type RuleDefect = { readonly rule: JsonObject; readonly because: string };

/** The compiled rules of one schema. */
export type Rules = {
  /** Returns the violations of an object; `old` is its previous state, for transition rules. */
  validate(object: JsonObject, old: JsonObject | undefined): Problem[];
  readonly defined: boolean;
  readonly defects: readonly RuleDefect[];
};

type Program = (context: Record<string, unknown>) => unknown;
type Rule = {
  readonly source: JsonObject;
  readonly program: Program | undefined;
  readonly usesOld: boolean;
};

const SELF = "self";
const OLD = "oldSelf";
/** Values are untyped here: times and durations are texts, and field names are not escaped. */
const NEEDS_TYPES = /\b(timestamp|duration)\(|__/;

/** CEL with `sum()`, the only Kubernetes function that Muster's definitions use. */
const environment = new Environment({
  enableOptionalTypes: true,
  homogeneousAggregateLiterals: false,
  limits: { maxAstNodes: 100_000 },
})
  .registerFunction("list<A>.sum(): A", (list: readonly (bigint | number)[]) =>
    list.slice(1).reduce<bigint | number>((sum, item) => add(sum, item), list[0] ?? 0n),
  )
  .registerVariable(SELF, "dyn")
  .registerVariable(OLD, "dyn");

function add(a: bigint | number, b: bigint | number): bigint | number {
  return typeof a === "bigint" && typeof b === "bigint" ? a + b : Number(a) + Number(b);
}

/** Compiles `x-kubernetes-validations` of a schema and of all nested schemas. */
export function compileRules(root: StructuralSchema): Rules {
  const defects: RuleDefect[] = [];
  const nodes = new Map<StructuralSchema, readonly Rule[]>();
  const inside = new Set<StructuralSchema>();
  /** Returns whether the schema, or a nested one, has rules: other parts of an object are skipped. */
  const collect = (schema: StructuralSchema): boolean => {
    const rules = getList(schema, "x-kubernetes-validations").filter(isObject);
    if (rules.length > 0)
      nodes.set(
        schema,
        rules.map((rule) => compileRule(rule, defects)),
      );
    const below = listChildren(schema).map(collect);
    const found = rules.length > 0 || below.includes(true);
    if (found) inside.add(schema);
    return found;
  };
  const defined = collect(root);
  return { validate: (object, old) => validate({ nodes, inside }, root, object, "", old), defined, defects };
}

function compileRule(source: JsonObject, defects: RuleDefect[]): Rule {
  const text = getText(source, "rule");
  const plain = text.replace(/"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'/g, "");
  const compiled = NEEDS_TYPES.test(plain) ? { because: "it needs typed values" } : compileExpression(text);
  if ("because" in compiled) defects.push({ rule: source, because: compiled.because });
  const program = "program" in compiled ? compiled.program : undefined;
  return { source, program, usesOld: /\boldSelf\b/.test(plain) };
}

function compileExpression(text: string): { readonly program: Program } | { readonly because: string } {
  try {
    const parsed = environment.parse(text);
    const checked = parsed.check();
    if (!checked.valid) return { because: checked.error?.summary ?? "invalid" };
    if (checked.type !== "bool" && checked.type !== "dyn") return { because: "it must evaluate to a bool" };
    return { program: parsed };
  } catch (error) {
    return { because: summariseError(error) };
  }
}

function summariseError(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return "summary" in error && typeof error.summary === "string" ? error.summary : error.message;
}

/** Converts a value for rules: whole numbers are ints, objects are maps. */
function toRuleValue(value: JsonValue): unknown {
  if (typeof value === "number" && Number.isInteger(value)) return BigInt(value);
  if (isList(value)) return value.map(toRuleValue);
  if (isObject(value)) return new Map(Object.entries(value).map(([key, child]) => [key, toRuleValue(child)]));
  return value;
}

type CompiledRules = {
  readonly nodes: ReadonlyMap<StructuralSchema, readonly Rule[]>;
  readonly inside: ReadonlySet<StructuralSchema>;
};

function validate(
  compiled: CompiledRules,
  schema: StructuralSchema,
  value: JsonValue,
  path: string,
  old: JsonValue | undefined,
): Problem[] {
  if (value === null || !compiled.inside.has(schema)) return [];
  const before = old === null ? undefined : old;
  const own = runRules(compiled.nodes.get(schema) ?? [], schema, value, path, before);
  const below = (child: StructuralSchema, next: JsonValue, place: string, earlier: JsonValue | undefined): Problem[] =>
    validate(compiled, child, next, place, earlier);
  if (isList(value)) {
    const items = findItemSchema(schema);
    const earlier = isList(before) ? before : [];
    if (items === undefined) return own;
    return [
      ...own,
      ...value.flatMap((item, index) => below(items, item, `${path}[${index}]`, correlateItems(schema, item, earlier))),
    ];
  }
  if (!isObject(value)) return own;
  const properties = getObject(schema, "properties");
  return [
    ...own,
    ...Object.entries(value).flatMap(([key, child]) => {
      const field = findFieldSchema(schema, key);
      if (field === undefined) return [];
      const named = path === "" ? key : `${path}.${key}`;
      const place = Object.hasOwn(properties, key) ? named : `${path}[${key}]`;
      const earlier = isObject(before) && Object.hasOwn(before, key) ? before[key] : undefined;
      return below(field, child, place, earlier);
    }),
  ];
}

function runRules(
  rules: readonly Rule[],
  schema: StructuralSchema,
  value: JsonValue,
  path: string,
  old: JsonValue | undefined,
): Problem[] {
  if (rules.length === 0) return [];
  const self = toRuleValue(value);
  const before = old === undefined ? undefined : toRuleValue(old);
  const unchanged = old !== undefined && isSameJson(value, old);
  return rules.flatMap((rule) => {
    if (rule.program === undefined || (rule.usesOld && before === undefined)) return [];
    const found = runRule(rule, { [SELF]: self, [OLD]: before }, { schema, value, path });
    // An unchanged value stays accepted, except by transition rules.
    return found === undefined || (unchanged && !rule.usesOld) ? [] : [found];
  });
}

function runRule(
  { program, source }: Rule,
  context: Record<string, unknown>,
  { schema, value, path }: { readonly schema: StructuralSchema; readonly value: JsonValue; readonly path: string },
): Problem | undefined {
  const type = getText(schema, "type");
  const rule = getText(source, "message").trim() || getText(source, "rule").trim();
  let passed: unknown;
  try {
    passed = program?.(context);
  } catch (error) {
    const because = `${summariseError(error).replace(/^No such/, "no such")} evaluating rule: ${rule}`;
    return {
      field: orNil(path),
      reason: "FieldValueInvalid",
      message: `Invalid value: ${JSON.stringify(type)}: ${because}`,
    };
  }
  if (passed === true) return undefined;
  const because = getText(source, "message").trim() === "" ? `failed rule: ${rule}` : rule;
  const shown = ["object", "array"].includes(type) ? "" : ` ${JSON.stringify(value)}:`;
  return {
    field: orNil(path + getText(source, "fieldPath")),
    reason: "FieldValueInvalid",
    message: `Invalid value:${shown} ${because}`,
  };
}

function orNil(path: string): string {
  return path === "" ? "<nil>" : path.replace(/^\./, "");
}
