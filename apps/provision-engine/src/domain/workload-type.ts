import type { z } from "zod";
import type { ProvisionCounters } from "./count-leases.ts";
import type { ResourceUnits } from "./resource-units.ts";

/** What a workload takes and needs, read from its data. */
export type Claim = {
  readonly units: ResourceUnits;
  /** Name of the network that it is; undefined: it is none. */
  readonly network: string | undefined;
  /** What has to be there before, of the same user: networks by name, volumes by the ids of their leases. */
  readonly needs: { readonly networks: readonly string[]; readonly volumes: readonly string[] };
};

export type Problem = { readonly field: string; readonly reason: string };

export type Read<Value> =
  | { readonly ok: true; readonly value: Value }
  /** At least one. */
  | { readonly ok: false; readonly problems: readonly Problem[] };

/** A type of workload as decisions know it. What provisions it is another matter. */
export type WorkloadType<Data = unknown> = {
  readonly type: string;
  readonly counter: keyof ProvisionCounters;
  /** Of the orders that come together, those of a lower rank are begun first. */
  readonly rank: number;
  readonly read: (json: string) => Read<Data>;
  readonly claim: (json: string) => Read<Claim>;
};

type Definition<Schema extends z.ZodType> = Pick<WorkloadType, "type" | "counter" | "rank"> & {
  readonly schema: Schema;
  readonly claimOf: (data: z.output<Schema>) => Claim;
};

/** Largest data of an order: its record, which holds them, stays far below the largest value of a bucket. */
export const DATA_BYTES_MAX = 65_536;

export function workloadType<Schema extends z.ZodType>({
  schema,
  claimOf,
  ...rest
}: Definition<Schema>): WorkloadType<z.output<Schema>> {
  const read = (json: string): Read<z.output<Schema>> => {
    const parsed = parseJson(json);
    if (!parsed.ok) return parsed;
    const checked = schema.safeParse(parsed.value, { error: explain });
    return checked.success
      ? { ok: true, value: checked.data }
      : { ok: false, problems: checked.error.issues.flatMap(problemsOf) };
  };
  return {
    ...rest,
    read,
    claim: (json) => {
      const data = read(json);
      return data.ok ? { ok: true, value: claimOf(data.value) } : data;
    },
  };
}

/** One line with all that is wrong. */
export function describeProblems(problems: readonly Problem[]): string {
  return problems.map(({ field, reason }) => `${field} ${reason}`).join("; ");
}

function parseJson(json: string): Read<unknown> {
  const wrong = (reason: string): Read<unknown> => ({ ok: false, problems: [{ field: "data", reason }] });
  if (new TextEncoder().encode(json).length > DATA_BYTES_MAX) return wrong(`is larger than ${DATA_BYTES_MAX} bytes`);
  try {
    const value: unknown = JSON.parse(json);
    return { ok: true, value };
  } catch {
    return wrong("is no JSON");
  }
}

function problemsOf(issue: z.core.$ZodIssue): Problem[] {
  const field = (...more: readonly PropertyKey[]): string => ["data", ...issue.path, ...more].map(String).join(".");
  switch (issue.code) {
    case "unrecognized_keys":
      return issue.keys.map((key) => ({ field: field(key), reason: "there is no such field" }));
    case "invalid_key":
      return [{ field: field(), reason: issue.issues[0]?.message ?? issue.message }];
    default:
      return [{ field: field(), reason: issue.message }];
  }
}

/** What is wrong with one value, for people; undefined: as the schema says. */
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
