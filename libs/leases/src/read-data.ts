import { z } from "zod";
import { LEASE_DATA, type LeaseData, type LeaseType } from "./lease-data.ts";

/** A problem in the data of a lease, with its path. */
export type DataProblem = {
  readonly path: readonly (string | number)[];
  readonly reason: string;
  /** The known fields beside an unknown one. */
  readonly known?: readonly string[];
};

type ReadData<Data> =
  | { readonly ok: true; readonly data: Data }
  /** At least one problem. */
  | { readonly ok: false; readonly problems: readonly DataProblem[] };

/** Maximum data of an order, so that its record stays far below the maximum value of a bucket. */
export const MAX_DATA_BYTES = 65_536;

/** Parses the data of a lease and fills in defaults, or returns all problems. */
export function readData<Type extends LeaseType>(type: Type, json: string): ReadData<LeaseData<Type>> {
  const schema = LEASE_DATA[type];
  const parsed = parseJson(json);
  if (!parsed.ok) return parsed;
  const checked = schema.safeParse(parsed.data, { error: explain });
  return checked.success
    ? { ok: true, data: checked.data }
    : { ok: false, problems: checked.error.issues.flatMap((issue) => toProblems(schema, issue)) };
}

function parseJson(json: string): ReadData<unknown> {
  const wrong = (reason: string): ReadData<unknown> => ({ ok: false, problems: [{ path: [], reason }] });
  const { length } = new TextEncoder().encode(json);
  if (length > MAX_DATA_BYTES) return wrong(`is larger than ${MAX_DATA_BYTES} bytes`);
  try {
    return { ok: true, data: JSON.parse(json) };
  } catch {
    return wrong("is not JSON");
  }
}

function toProblems(schema: z.ZodType, issue: z.core.$ZodIssue): DataProblem[] {
  const path = issue.path.map((each) => (typeof each === "number" ? each : String(each)));
  switch (issue.code) {
    case "unrecognized_keys": {
      const known = fieldsAt(schema, path);
      return issue.keys.map((key) => ({ path: [...path, key], reason: "there is no such field", known }));
    }
    case "invalid_key":
      return [{ path, reason: issue.issues[0]?.message ?? issue.message }];
    default:
      return [{ path, reason: issue.message }];
  }
}

/** Names of the fields of the object at this path. */
function fieldsAt(schema: z.core.$ZodType, [step, ...rest]: DataProblem["path"]): readonly string[] {
  if (schema instanceof z.ZodDefault || schema instanceof z.ZodOptional)
    return fieldsAt(schema.unwrap(), step === undefined ? [] : [step, ...rest]);
  if (schema instanceof z.ZodArray) return fieldsAt(schema.element, rest);
  if (!(schema instanceof z.ZodObject)) return [];
  if (step === undefined) return Object.keys(schema.shape);
  const fields: Readonly<Record<string, z.core.$ZodType>> = schema.shape;
  const field = fields[step];
  return field === undefined ? [] : fieldsAt(field, rest);
}

/** Describes the problem of one value; undefined: the schema's own message. */
function explain(issue: z.core.$ZodRawIssue): string | undefined {
  switch (issue.code) {
    case "invalid_type":
      return issue.input === undefined ? "is missing" : `${NEEDED[issue.expected] ?? issue.expected} is needed`;
    case "invalid_value":
      return `${issue.values.map(String).join(" or ")} is needed`;
    case "too_small":
      return issue.origin in COUNTED ? "must not be empty" : `at least ${issue.minimum} is needed`;
    case "too_big":
      return `at most ${issue.maximum}${COUNTED[issue.origin] ?? ""} is possible`;
    default:
      return undefined;
  }
}

const NEEDED: Readonly<Record<string, string>> = {
  int: "a whole number",
  number: "a number",
  string: "a text",
  boolean: "true or false",
  array: "a list",
  object: "an object",
  record: "an object",
};

const COUNTED: Readonly<Record<string, string>> = { string: " characters", array: " entries" };
