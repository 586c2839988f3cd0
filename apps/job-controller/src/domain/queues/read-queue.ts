import { parseDuration } from "@muster/faults";
import type { NamespaceSelector } from "@muster/ledger-client/choose-queue";
import { parseAmount, COUNTABLE, parseQuantity, printAmount } from "@muster/resources";
import type { Problem } from "../kind.ts";
import { type Fields, toFields, INT32, type ReadNotes } from "../read-fields.ts";

/** A queue as the ledger follows it, with the fields of its message. Amounts are millicores of cpu, and otherwise bytes or pieces. */
export type QueueRecord = {
  readonly name: string;
  /** An empty parent makes the queue the root of a tree. */
  readonly parent: string;
  readonly weightMilli: number;
  readonly quotas: readonly PoolQuota[];
  readonly strategy: string;
  readonly stopPolicy: string;
  readonly maxPriority: number | undefined;
  /** The namespaces that the queue serves; undefined for none. */
  readonly namespaces: NamespaceSelector | undefined;
  /** The work that its requests may preempt; undefined for none. */
  readonly preemption: PreemptionPolicy | undefined;
  /** The work of the queue is not preempted before it has had its machines for this time. */
  readonly minRunTimeMs: number;
  /** A gang that is not ready within this time of its grant releases its machines; 0 means no limit. */
  readonly readyTimeoutMs: number;
  /** Half-life of the past borrowing of the queues below it; 0: past borrowing does not count. */
  readonly pastUseHalfLifeMs: number;
  /** True if its work may request not to be preempted. */
  readonly permitsNonPreemptible: boolean;
  /** The reason why the queue admits no work; empty if it admits work. */
  readonly problem: string;
};

type PreemptionPolicy = {
  /** Preempts work of other queues that borrow the quota of this queue. */
  readonly reclaim: Preemptible;
  /** Preempts work of other queues with a larger share. */
  readonly fairSharing: Preemptible;
  /** Preempts work of the same queue. */
  readonly withinQueue: Preemptible;
  /** Undefined if a request that must borrow preempts no work of other queues to reclaim. */
  readonly whileBorrowing: { readonly maxPriority: number | undefined } | undefined;
};

type Preemptible = (typeof PREEMPTIBLE)[number];

type PoolQuota = { readonly pool: string; readonly resources: readonly ResourceQuota[] };

type ResourceQuota = {
  readonly resource: string;
  readonly nominal: number;
  readonly borrowingLimit: number | undefined;
  readonly lendingLimit: number | undefined;
};

const STRATEGIES = ["BestEffortFIFO", "StrictFIFO"] as const;
const STOP_POLICIES = ["None", "Hold", "HoldAndDrain"] as const;
const PREEMPTIBLE = ["Never", "LowerPriority", "Any"] as const;
const OPERATORS = ["In", "NotIn", "Exists", "DoesNotExist"] as const;
const MAX_WEIGHT = 1_000_000;

// With these limits, which the definition also has, a queue fits into one entry of the log.
const MAX_POOLS = 64;
const MAX_QUOTAS = 256;
const MAX_LABELS = 32;
const MAX_CONDITIONS = 32;
const MAX_VALUES = 64;
/** The limit of label values, because names of queues and pools are label values. */
const MAX_LABEL_VALUE = 63;
/** The maximum length of names of labels and resources: a prefix and a name. */
const MAX_QUALIFIED_NAME = 253 + 1 + 63;
const MAX_PROBLEMS = 10;
const MAX_SHOWN = 40;

/**
 * Reads a Queue. Never throws: a queue with unreadable fields keeps the readable fields and has the problems of all fields. Thus it admits no work, and is not
 * lost. The schema refuses most of these fields, but not under an older definition, and not quantities that the ledger cannot count.
 */
export function readQueue(name: string, spec: unknown): QueueRecord {
  const notes: ReadNotes = { problems: [], warnings: [] };
  const tooLong = findTooLong(name, MAX_LABEL_VALUE);
  if (tooLong !== undefined) notes.problems.push({ field: "metadata.name", reason: tooLong });
  const fields = toFields(spec ?? {}, "spec", notes);
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
  preemption: undefined,
  minRunTimeMs: 0,
  readyTimeoutMs: 0,
  pastUseHalfLifeMs: 0,
  permitsNonPreemptible: false,
};

function readSpec(fields: Fields): QueueSpec {
  return {
    parent: readName(fields, "parent", MAX_LABEL_VALUE) ?? EMPTY.parent,
    weightMilli: readWeight(fields) ?? EMPTY.weightMilli,
    quotas: readQuotas(fields),
    strategy: fields.oneOf("strategy", STRATEGIES) ?? EMPTY.strategy,
    stopPolicy: fields.oneOf("stopPolicy", STOP_POLICIES) ?? EMPTY.stopPolicy,
    maxPriority: fields.integer("maxPriority", INT32),
    namespaces: readSelector(fields),
    preemption: readPreemption(fields.object("preemption")),
    minRunTimeMs: readDuration(fields, "minRunTime") ?? EMPTY.minRunTimeMs,
    readyTimeoutMs: readDuration(fields, "readyTimeout") ?? EMPTY.readyTimeoutMs,
    pastUseHalfLifeMs: readDuration(fields, "pastUseHalfLife") ?? EMPTY.pastUseHalfLifeMs,
    permitsNonPreemptible: fields.flag("permitNonPreemptible") ?? EMPTY.permitsNonPreemptible,
  };
}

function readPreemption(fields: Fields | undefined): PreemptionPolicy | undefined {
  if (fields === undefined) return undefined;
  const read = (field: string): Preemptible => fields.oneOf(field, PREEMPTIBLE) ?? "Never";
  const whileBorrowing = fields.object("whileBorrowing");
  return {
    reclaim: read("reclaim"),
    fairSharing: read("fairSharing"),
    withinQueue: read("withinQueue"),
    whileBorrowing: whileBorrowing && { maxPriority: whileBorrowing.integer("maxPriority", INT32) },
  };
}

function readDuration(fields: Fields, field: string): number | undefined {
  const written = fields.raw(field);
  if (written === undefined) return undefined;
  const ms = typeof written === "string" ? parseDuration(written) : undefined;
  if (ms === undefined)
    fields.refuse(
      field,
      `must be a duration with its unit, such as 10m or 1h30m, 366 days at most, not ${show(written)}`,
    );
  return ms;
}

function describeProblems(problems: readonly Problem[]): string {
  const shown = problems.slice(0, MAX_PROBLEMS).map(({ field, reason }) => `${field}: ${reason}`);
  const more = problems.length - shown.length;
  return [...shown, ...(more > 0 ? [`and ${more} more problems`] : [])].join("; ");
}

function readName(fields: Fields, field: string, maxLength: number): string | undefined {
  const name = fields.text(field);
  const tooLong = name === undefined ? undefined : findTooLong(name, maxLength);
  if (tooLong === undefined) return name;
  fields.refuse(field, tooLong);
  return undefined;
}

function findTooLong(text: string, maxLength: number): string | undefined {
  return text.length > maxLength ? `must have ${maxLength} characters at most, not ${text.length}` : undefined;
}

function show(written: unknown): string {
  const text = JSON.stringify(written);
  return text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}...` : text;
}

function readWeight(fields: Fields): number | undefined {
  const weight = fields.raw("weight");
  if (weight === undefined) return undefined;
  const isInRange = typeof weight === "number" && weight >= 0 && weight <= MAX_WEIGHT;
  const milli = isInRange ? Math.round(weight * 1000) : -1;
  if (isInRange && milli / 1000 === weight) return milli;
  fields.refuse(
    "weight",
    `must be a number from 0 to ${MAX_WEIGHT} with at most three decimal places, such as 0.5, not ${show(weight)}`,
  );
  return undefined;
}

function readQuotas(fields: Fields): readonly PoolQuota[] {
  const quotas = fields.objects("quotas");
  const tooMany = findTooMany(quotas);
  if (tooMany !== undefined) {
    fields.refuse("quotas", `must have ${tooMany}: divide them among several queues`);
    return [];
  }
  const pools = new Set<string>();
  return quotas.flatMap((quota) => {
    const pool = readUnique(quota, "pool", pools, MAX_LABEL_VALUE);
    if (pool === undefined) return [];
    const resources = new Set<string>();
    const read = quota.objects("resources").flatMap((each) => readResource(each, resources));
    return [{ pool, resources: read }];
  });
}

function findTooMany(quotas: readonly Fields[]): string | undefined {
  if (quotas.length > MAX_POOLS) return `${MAX_POOLS} pools at most, not ${quotas.length}`;
  const counts = quotas.map((quota) => quota.raw("resources")).map((list) => (Array.isArray(list) ? list.length : 0));
  const sum = counts.reduce((total, count) => total + count, 0);
  return sum > MAX_QUOTAS ? `${MAX_QUOTAS} resources at most over all pools, not ${sum}` : undefined;
}

function readResource(fields: Fields, seen: Set<string>): readonly ResourceQuota[] {
  const resource = readUnique(fields, "name", seen, MAX_QUALIFIED_NAME);
  if (resource === undefined) return [];
  if (fields.raw("nominal") === undefined) fields.refuse("nominal", "is missing: 0 where the queue owns nothing");
  const nominal = readAmount(fields, "nominal", resource);
  const borrowingLimit = readAmount(fields, "borrowingLimit", resource);
  const lendingLimit = readAmount(fields, "lendingLimit", resource);
  return nominal === undefined ? [] : [{ resource, nominal, borrowingLimit, lendingLimit }];
}

/** Reads the name in this field, which no earlier item of the list may have. */
function readUnique(fields: Fields, field: string, seen: Set<string>, maxLength: number): string | undefined {
  const name = readName(fields, field, maxLength) ?? "";
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

/** Refuses a quantity that the ledger could only count after rounding. */
function readAmount(fields: Fields, field: string, resource: string): number | undefined {
  const written = fields.raw(field);
  if (written === undefined) return undefined;
  const text = typeof written === "string" || typeof written === "number" ? String(written).trim() : "";
  const amount = parseAmount(resource, text);
  if (amount === undefined || amount < 0) {
    fields.refuse(field, `must be ${COUNTABLE}, not ${show(written)}`);
    return undefined;
  }
  if (!Number.isSafeInteger(amount)) {
    const limit = printAmount(resource, Number.MAX_SAFE_INTEGER + 1);
    fields.refuse(field, `must be less than ${limit}, not ${show(written)}`);
    return undefined;
  }
  if (parseQuantity(printAmount(resource, amount)) === parseQuantity(text)) return amount;
  const whole = resource === "cpu" ? "whole thousandths of a core, such as 500m" : "a whole number, such as 8 or 2Gi";
  fields.refuse(field, `must be ${whole}, not ${show(written)}`);
  return undefined;
}

function readSelector(spec: Fields): NamespaceSelector | undefined {
  const selector = spec.object("namespaceSelector");
  if (selector === undefined) return undefined;
  const conditions = selector.objects("matchExpressions");
  const isTooLong = isLongerThan(selector, "matchExpressions", conditions, MAX_CONDITIONS, "conditions");
  return {
    matchLabels: Object.fromEntries(readLabels(selector)),
    matchExpressions: isTooLong ? [] : conditions.flatMap(readRequirement),
  };
}

function readLabels(selector: Fields): readonly (readonly [key: string, value: string])[] {
  const labels = selector.object("matchLabels");
  if (labels === undefined || isLongerThan(selector, "matchLabels", labels.names, MAX_LABELS, "labels")) return [];
  return labels.names.flatMap((key) => {
    if (key.length > MAX_QUALIFIED_NAME) {
      labels.refuse("", `must have keys of ${MAX_QUALIFIED_NAME} characters at most, not of ${key.length}`);
      return [];
    }
    const value = readName(labels, key, MAX_LABEL_VALUE);
    return value === undefined ? [] : [[key, value] as const];
  });
}

function readRequirement(fields: Fields): NamespaceSelector["matchExpressions"] {
  const key = readName(fields, "key", MAX_QUALIFIED_NAME) ?? "";
  if (key === "" && (fields.raw("key") === undefined || fields.raw("key") === "")) fields.refuse("key", "is missing");
  const operator = fields.oneOf("operator", OPERATORS);
  if (operator === undefined && fields.raw("operator") === undefined)
    fields.refuse("operator", `is missing: one of ${OPERATORS.join(", ")}`);
  const values = readValues(fields);
  if (key === "" || operator === undefined || values === undefined) return [];
  const needsValues = operator === "In" || operator === "NotIn";
  if (needsValues !== values.length > 0)
    fields.refuse("values", needsValues ? `is empty: ${operator} needs a value` : `must be empty with ${operator}`);
  return [{ key, operator, values }];
}

/** Returns undefined if the list has too many values. */
function readValues(fields: Fields): readonly string[] | undefined {
  const values = fields.texts("values");
  if (isLongerThan(fields, "values", values, MAX_VALUES, "values")) return undefined;
  return values.filter((value, index) => {
    const tooLong = findTooLong(value, MAX_LABEL_VALUE);
    if (tooLong !== undefined) fields.refuse(`values[${index}]`, tooLong);
    return tooLong === undefined;
  });
}

function isLongerThan(fields: Fields, field: string, items: readonly unknown[], max: number, unit: string): boolean {
  if (items.length <= max) return false;
  fields.refuse(field, `must have ${max} ${unit} at most, not ${items.length}`);
  return true;
}
