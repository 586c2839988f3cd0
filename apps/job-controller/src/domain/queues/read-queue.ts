import { amountOf, COUNTABLE, isCountable, parseQuantity, printAmount } from "@muster/resources";
import type { Problem } from "../kind.ts";
import { type Fields, fieldsOf, INT32, type Notes } from "../read-fields.ts";

/** A queue as the ledger follows it, with the fields of its message. Amounts are millicores of cpu, otherwise bytes or pieces. */
export type QueueRecord = {
  readonly name: string;
  /** Empty: it is the root of a tree. */
  readonly parent: string;
  readonly weightMilli: number;
  readonly quotas: readonly PoolQuota[];
  readonly strategy: string;
  readonly stopPolicy: string;
  readonly maxPriority: number | undefined;
  /** The namespaces that it serves; undefined: none. */
  readonly namespaces: NamespaceSelector | undefined;
  /** Not empty: it admits nothing, for this reason. */
  readonly problem: string;
};

type PoolQuota = { readonly pool: string; readonly resources: readonly ResourceQuota[] };

type ResourceQuota = {
  readonly resource: string;
  readonly nominal: number;
  readonly borrowingLimit: number | undefined;
  readonly lendingLimit: number | undefined;
};

/** As Kubernetes defines it. All of it must hold; an empty one matches everything. */
export type NamespaceSelector = {
  readonly matchLabels: Readonly<Record<string, string>>;
  readonly matchExpressions: readonly SelectorRequirement[];
};

type SelectorRequirement = { readonly key: string; readonly operator: string; readonly values: readonly string[] };

const STRATEGIES = ["BestEffortFIFO", "StrictFIFO"] as const;
const STOP_POLICIES = ["None", "Hold", "HoldAndDrain"] as const;
const OPERATORS = ["In", "NotIn", "Exists", "DoesNotExist"] as const;
const MAX_WEIGHT = 1_000_000;

/**
 * Reads a Queue. Never throws: a queue with unreadable fields keeps the readable ones and has the problems of all fields, so that it admits nothing instead of
 * vanishing. The schema refuses most of them; not those of an older definition, and no quantity that the ledger cannot count.
 */
export function readQueue(name: string, spec: unknown): QueueRecord {
  const notes: Notes = { problems: [], warnings: [] };
  const fields = fieldsOf(spec ?? {}, "spec", notes);
  const read = fields === undefined ? EMPTY : readSpec(fields);
  return { name, ...read, problem: describeProblems(notes.problems) };
}

type QueueSpec = Omit<QueueRecord, "name" | "problem">;

const EMPTY: QueueSpec = {
  parent: "",
  weightMilli: 1000,
  quotas: [],
  strategy: STRATEGIES[0],
  stopPolicy: STOP_POLICIES[0],
  maxPriority: undefined,
  namespaces: undefined,
};

function readSpec(fields: Fields): QueueSpec {
  return {
    parent: fields.text("parent") ?? EMPTY.parent,
    weightMilli: readWeight(fields) ?? EMPTY.weightMilli,
    quotas: readQuotas(fields),
    strategy: fields.oneOf("strategy", STRATEGIES) ?? EMPTY.strategy,
    stopPolicy: fields.oneOf("stopPolicy", STOP_POLICIES) ?? EMPTY.stopPolicy,
    maxPriority: fields.integer("maxPriority", INT32),
    namespaces: readSelector(fields),
  };
}

function describeProblems(problems: readonly Problem[]): string {
  return problems.map(({ field, reason }) => `${field}: ${reason}`).join("; ");
}

function readWeight(fields: Fields): number | undefined {
  const weight = fields.raw("weight");
  if (weight === undefined) return undefined;
  const isInRange = typeof weight === "number" && weight >= 0 && weight <= MAX_WEIGHT;
  const milli = isInRange ? Math.round(weight * 1000) : -1;
  if (isInRange && milli / 1000 === weight) return milli;
  const shown = typeof weight === "number" ? weight : JSON.stringify(weight);
  fields.refuse(
    "weight",
    `must be a number from 0 to ${MAX_WEIGHT} with at most three decimal places, such as 0.5, not ${shown}`,
  );
  return undefined;
}

function readQuotas(fields: Fields): readonly PoolQuota[] {
  const pools = new Set<string>();
  return fields.objects("quotas").flatMap((quota) => {
    const pool = readUnique(quota, "pool", pools);
    if (pool === undefined) return [];
    const resources = new Set<string>();
    const read = quota.objects("resources").flatMap((each) => readResource(each, resources));
    return [{ pool, resources: read }];
  });
}

function readResource(fields: Fields, seen: Set<string>): readonly ResourceQuota[] {
  const resource = readUnique(fields, "name", seen);
  if (resource === undefined) return [];
  if (fields.raw("nominal") === undefined) fields.refuse("nominal", "is missing: 0 where the queue owns nothing");
  const nominal = readAmount(fields, "nominal", resource);
  const borrowingLimit = readAmount(fields, "borrowingLimit", resource);
  const lendingLimit = readAmount(fields, "lendingLimit", resource);
  return nominal === undefined ? [] : [{ resource, nominal, borrowingLimit, lendingLimit }];
}

/** The name in this field, which no earlier item of the list has. */
function readUnique(fields: Fields, field: string, seen: Set<string>): string | undefined {
  const name = fields.text(field) ?? "";
  if (name === "") {
    if (fields.raw(field) === undefined || fields.raw(field) === "") fields.refuse(field, "is missing");
    return undefined;
  }
  if (seen.has(name)) {
    fields.refuse(field, `"${name}" is named twice: name it once, with the whole amount`);
    return undefined;
  }
  seen.add(name);
  return name;
}

/** A quantity that would have to be rounded is refused: the ledger would count another one. */
function readAmount(fields: Fields, field: string, resource: string): number | undefined {
  const written = fields.raw(field);
  if (written === undefined) return undefined;
  const text = typeof written === "string" || typeof written === "number" ? String(written).trim() : "";
  const amount = isCountable(resource, written) ? amountOf(resource, text) : undefined;
  if (amount === undefined) {
    fields.refuse(field, `must be ${COUNTABLE}, not ${JSON.stringify(written)}`);
    return undefined;
  }
  if (parseQuantity(printAmount(resource, amount)) === parseQuantity(text)) return amount;
  const whole = resource === "cpu" ? "whole thousandths of a core, such as 500m" : "a whole number, such as 8 or 2Gi";
  fields.refuse(field, `must be ${whole}, not ${JSON.stringify(written)}`);
  return undefined;
}

function readSelector(spec: Fields): NamespaceSelector | undefined {
  const selector = spec.object("namespaceSelector");
  if (selector === undefined) return undefined;
  const labels = selector.object("matchLabels");
  const matchLabels = (labels?.names ?? []).flatMap((name) => {
    const value = labels?.text(name);
    return value === undefined ? [] : [[name, value] as const];
  });
  return {
    matchLabels: Object.fromEntries(matchLabels),
    matchExpressions: selector.objects("matchExpressions").flatMap(readRequirement),
  };
}

function readRequirement(fields: Fields): readonly SelectorRequirement[] {
  const key = fields.text("key") ?? "";
  if (key === "") fields.refuse("key", "is missing");
  const operator = fields.oneOf("operator", OPERATORS);
  if (operator === undefined && fields.raw("operator") === undefined)
    fields.refuse("operator", `is missing: one of ${OPERATORS.join(", ")}`);
  const values = fields.texts("values");
  if (key === "" || operator === undefined) return [];
  const needsValues = operator === "In" || operator === "NotIn";
  if (needsValues !== values.length > 0)
    fields.refuse("values", needsValues ? `is empty: ${operator} needs a value` : `must be empty with ${operator}`);
  return [{ key, operator, values }];
}
