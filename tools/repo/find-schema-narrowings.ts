/** The keywords of a JSON Schema that are compared. Descriptions and defaults are not. */
type Schema = {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: boolean | Schema;
  readonly items?: Schema;
  readonly required?: readonly string[];
  readonly enum?: readonly unknown[];
  readonly nullable?: boolean;
  readonly [keyword: string]: unknown;
};

export type Documents = {
  readonly before: object;
  readonly after: object;
  /** Whether documents of users have every required field; false where defaults supply them. */
  readonly areComplete: boolean;
};

const LOWER_BOUNDS = ["minimum", "minLength", "minItems", "minProperties"];
const UPPER_BOUNDS = ["maximum", "maxLength", "maxItems", "maxProperties"];
/** Keywords whose change needs a decision, because it cannot be derived whether the new value accepts everything that the old one did. */
const OPAQUE = ["pattern", "format", "const", "not", "anyOf", "oneOf", "allOf", "x-kubernetes-int-or-string"];

/** Finds documents that the schema `before` accepts and `after` does not, a line for each field: `spec.queue: the field is removed`. */
export function findNarrowings(documents: Documents): string[] {
  return compare(documents.before as Schema, documents.after as Schema, "", documents);
}

function compare(one: Schema, other: Schema, path: string, documents: Documents): string[] {
  const before = resolve(one, documents.before);
  const after = resolve(other, documents.after);
  const here = [
    ...compareTypes(before, after),
    ...compareBounds(before, after),
    ...compareRequired(before, after, documents),
    ...compareRules(before, after),
  ];
  return [...here.map((what) => `${path || "the document"}: ${what}`), ...compareParts(before, after, path, documents)];
}

function resolve(schema: Schema, root: object): Schema {
  if (schema.$ref === undefined) return schema;
  const keys = schema.$ref.replace(/^#\//, "").split("/");
  return keys.reduce<unknown>(
    (at, key) => (at as Readonly<Record<string, unknown>> | undefined)?.[key],
    root,
  ) as Schema;
}

function compareTypes(before: Schema, after: Schema): string[] {
  const types = after.type === undefined ? undefined : [after.type].flat();
  const lost = before.type === undefined ? (types === undefined ? [] : ["any"]) : [before.type].flat();
  const isLost = (type: string): boolean =>
    types !== undefined && !types.includes(type) && !(type === "integer" && types.includes("number"));
  const values = before.enum ?? (after.enum === undefined ? [] : ["any other"]);
  return [
    ...lost.filter(isLost).map((type) => `the type ${type} is refused`),
    ...(after.enum === undefined ? [] : values)
      .filter((value) => after.enum?.includes(value) !== true)
      .map((value) => `the value ${JSON.stringify(value)} is refused`),
    ...(before.nullable === true && after.nullable !== true ? ["null is refused"] : []),
  ];
}

function compareBounds(before: Schema, after: Schema): string[] {
  const isTighter = (keyword: string, sign: 1 | -1): boolean => {
    const [old, now] = [before[keyword], after[keyword]];
    return typeof now === "number" && (typeof old !== "number" || (now - old) * sign > 0);
  };
  const text = (value: unknown): string => (value === undefined ? "none" : JSON.stringify(value));
  const tighter = [
    ...LOWER_BOUNDS.filter((keyword) => isTighter(keyword, 1)),
    ...UPPER_BOUNDS.filter((keyword) => isTighter(keyword, -1)),
    ...OPAQUE.filter((keyword) => after[keyword] !== undefined && text(before[keyword]) !== text(after[keyword])),
  ];
  return tighter.map((keyword) => `${keyword} was ${text(before[keyword])} and is ${text(after[keyword])}`);
}

function compareRequired(before: Schema, after: Schema, { areComplete }: Documents): string[] {
  if (!areComplete) return [];
  const added = (after.required ?? []).filter((name) => before.required?.includes(name) !== true);
  return added.map((name) => `the field ${name} is required`);
}

/** Rules in CEL. */
function compareRules(before: Schema, after: Schema): string[] {
  const rulesOf = (schema: Schema): string[] =>
    ((schema["x-kubernetes-validations"] ?? []) as readonly { readonly rule: string }[]).map(({ rule }) => rule);
  const old = new Set(rulesOf(before));
  return rulesOf(after)
    .filter((rule) => !old.has(rule))
    .map((rule) => `the rule ${rule} is new`);
}

function compareParts(before: Schema, after: Schema, path: string, documents: Documents): string[] {
  const at = (name: string): string => (path === "" ? name : `${path}.${name}`);
  const isOpen = after.additionalProperties === true || after["x-kubernetes-preserve-unknown-fields"] === true;
  const fields = Object.entries(before.properties ?? {}).flatMap(([name, schema]) => {
    const now = after.properties?.[name];
    if (now !== undefined) return compare(schema, now, at(name), documents);
    return isOpen ? [] : [`${at(name)}: the field is removed`];
  });
  const closes = before.additionalProperties !== false && after.additionalProperties === false;
  const [others, othersNow] = [before.additionalProperties, after.additionalProperties];
  return [
    ...fields,
    ...(closes ? [`${path || "the document"}: other fields are refused`] : []),
    ...(typeof others === "object" && typeof othersNow === "object"
      ? compare(others, othersNow, at("*"), documents)
      : []),
    ...(before.items !== undefined && after.items !== undefined
      ? compare(before.items, after.items, `${path}[]`, documents)
      : []),
  ];
}
