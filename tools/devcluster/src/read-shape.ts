import { throwFault } from "@muster/faults";
import { z } from "zod";

/** The value as the schema returns it. Throws one invalid_request that names each wrong field, its value, and the valid form. */
export function readShape<Schema extends z.ZodType>(schema: Schema, value: unknown, what: string): z.output<Schema> {
  const read = schema.safeParse(value, { error: explain });
  if (read.success) return read.data;
  const [first, ...others] = read.error.issues.map(({ path, message }) => ({
    field: path.length === 0 ? what : path.join("."),
    reason: message,
  }));
  const reasons = [first?.reason, ...others.map(({ field, reason }) => `${field}: ${reason}`)];
  return throwFault({ code: "invalid_request", field: first?.field ?? what, reason: reasons.join("; ") });
}

/** A text that is not empty. */
export const text = z.string().min(1);
/** Milliseconds, bytes, or another amount from 0 on. */
export const amount = z.number().min(0);
/** A count: an integer of at least 0. */
export const count = z.int().min(0);

/** A number as its text: YAML has numbers where Kubernetes has quantities. */
export const quantity = z.preprocess((value) => (typeof value === "number" ? String(value) : value), text);

/** The fields that fault rules of every kind share; without `times` and `share` a rule holds for all that matches. */
export const ruleLimits = {
  times: z.int().min(1).exactOptional(),
  share: z.number().min(0).max(1).exactOptional(),
};

function explain(issue: z.core.$ZodRawIssue): string | undefined {
  switch (issue.code) {
    case "invalid_type":
      return issue.input === undefined ? "is missing" : needed(NEEDED[issue.expected] ?? issue.expected, issue);
    case "invalid_value":
      return needed(describeOptions(issue.values), issue);
    case "invalid_union":
      return needed(describeOptions(Array.isArray(issue["options"]) ? issue["options"] : []), discriminated(issue));
    case "too_small":
      return typeof issue.input === "string" ? "must not be empty" : needed(`at least ${issue.minimum}`, issue);
    case "too_big":
      return needed(`at most ${issue.maximum}`, issue);
    case "unrecognized_keys":
      return `unknown: ${issue.keys.join(", ")}; known: ${listFields(issue.inst).join(", ")}`;
    default:
      return undefined;
  }
}

function needed(right: string, { input }: { readonly input?: unknown }): string {
  return input === undefined ? `is missing: ${right} is needed` : `${right} is needed, not ${JSON.stringify(input)}`;
}

function describeOptions(values: readonly unknown[]): string {
  return values.length > 1 ? `one of ${values.map(String).join(", ")}` : String(values[0]);
}

/** The value by which the members of a union differ. */
function discriminated({ input, discriminator }: { readonly input?: unknown; readonly discriminator?: unknown }) {
  const isNamed = typeof input === "object" && input !== null && typeof discriminator === "string";
  return { input: isNamed ? (Reflect.get(input, discriminator) as unknown) : input };
}

function listFields(schema: unknown): string[] {
  return schema instanceof z.ZodObject ? Object.keys(schema.shape) : [];
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
