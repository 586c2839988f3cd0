import { throwFault } from "@muster/faults";
import { z } from "zod";
import { describeReason } from "./describe-reason.ts";
import { ENDING_CAUSES } from "./lease.ts";
import type { LeaseSnapshot, LeasePlan, LeasePolicy } from "./plan-lease.ts";

/** One decision about a lease with all of its inputs, so that it can be replayed anywhere. */
export type StoredDecision = {
  readonly nowNs: bigint;
  readonly policy: LeasePolicy;
  readonly snapshot: LeaseSnapshot;
};

/** Format and version, at the beginning of each line. */
export const FORMAT = "muster-lease-decision/1";

/** One line of JSON. Integers beyond 2^53 are text; missing values are null. */
export function writeDecision({ nowNs, policy, snapshot }: StoredDecision, plan: LeasePlan): string {
  const { tombstoneNs, crash } = policy;
  const stored = { policy: { tombstoneNs, crash }, snapshot: toStoredSnapshot(snapshot), plan: toStoredPlan(plan) };
  return JSON.stringify({ format: FORMAT, nowNs, ...stored }, toJson);
}

/** `plan` is plain JSON, comparable with `toDecisionJson`. Throws FaultError invalid_request for any other text. */
export function readDecision(text: string): StoredDecision & { readonly plan: unknown } {
  const read = stored.safeParse(parse(text));
  if (read.success) return read.data;
  const [issue] = read.error.issues;
  const reason = `is not ${FORMAT}: ${issue?.path.join(".") ?? ""} ${issue?.message ?? ""}`;
  return throwFault({ code: "invalid_request", field: "decision", reason });
}

export function toDecisionJson(plan: LeasePlan): unknown {
  return JSON.parse(JSON.stringify(toStoredPlan(plan), toJson));
}

/** In the stored format the discriminant of a plan is called `do`, and its reason is text. */
function toStoredPlan({ kind, because, ...rest }: LeasePlan): object {
  return { do: kind, ...rest, because: describeReason(because) };
}

/** In the stored format the discriminant of a reference is called `is`. */
function toStoredSnapshot({ reference, ...rest }: LeaseSnapshot): object {
  if (reference === undefined) return rest;
  const { kind, ...fields } = reference;
  return { ...rest, reference: { is: kind, ...fields } };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function toJson(_key: string, value: unknown): unknown {
  return typeof value === "bigint" ? String(value) : (value ?? null);
}

const bigint = z
  .string()
  .regex(/^-?\d+$/)
  .transform(BigInt);
const text = z.string();
const maybe = <Schema extends z.ZodType>(schema: Schema) => schema.nullable().transform((value) => value ?? undefined);
/** Missing in decisions of earlier versions. */
const maybeLater = <Schema extends z.ZodType>(schema: Schema) =>
  schema.nullish().transform((value) => value ?? undefined);
const phase = z.enum(["ORDERED", "PROVISIONING", "ACTIVE", "DECOMMISSIONING", "ENDED", "FAILED"]);
const cause = z.enum(ENDING_CAUSES);
const units = z.object({ cru: bigint, mru: bigint, hru: bigint, sru: bigint });
const crashes = z.object({
  sinceNs: bigint,
  exits: z.int(),
  pods: z.array(z.object({ pod: text, exits: z.int(), lastNs: bigint })),
});

const lease = z.object({
  id: text,
  type: text,
  reference: maybe(text),
  phase,
  takenUntilNs: bigint,
  expiresAtNs: bigint,
  notBeforeNs: bigint,
  trouble: text,
  endedAtNs: maybe(bigint),
  endsBecause: maybe(cause),
  unpublished: z.int(),
  // Missing in decisions of earlier versions.
  isCompactable: z.boolean().default(false),
  crashes: maybe(crashes),
  takesOver: maybeLater(text),
  keptFor: maybeLater(text),
});

const reference = z.union([
  z.object({ is: z.literal("unreadable"), id: text }).transform(({ is: kind, ...rest }) => ({ kind, ...rest })),
  z
    .object({
      is: z.literal("lease"),
      id: text,
      type: text,
      phase,
      expiresAtNs: bigint,
      isOfUser: z.boolean(),
      isOfEngine: z.boolean(),
      isSame: z.boolean(),
      heir: maybe(text),
    })
    .transform(({ is: kind, ...rest }) => ({ kind, ...rest })),
]);

const claim = z.discriminatedUnion("ok", [
  z.object({
    ok: z.literal(true),
    value: z.object({
      units,
      network: maybe(text),
      needs: z.object({ networks: z.array(text), volumes: z.array(text) }),
    }),
  }),
  z.object({ ok: z.literal(false), problems: z.array(z.object({ field: text, reason: text })) }),
]);

const around = z.object({
  held: units,
  overhead: units,
  capacity: z.object({
    cru: z.exactOptional(bigint),
    mru: z.exactOptional(bigint),
    hru: z.exactOptional(bigint),
    sru: z.exactOptional(bigint),
  }),
  named: z.array(z.object({ id: text, type: text, phase, network: maybe(text), within: maybe(text) })),
  users: z.object({ some: z.array(text), count: z.int() }),
});

const stored = z.object({
  format: z.literal(FORMAT),
  nowNs: bigint,
  policy: z.object({ tombstoneNs: bigint, crash: z.object({ windowNs: bigint }) }),
  snapshot: z.object({
    lease,
    claim,
    isServed: z.boolean(),
    reference: maybeLater(reference),
    around,
    exits: z.array(z.object({ pod: text, startedNs: bigint, exits: z.int(), lastNs: bigint, how: text })),
  }),
  plan: z.unknown(),
}) satisfies z.ZodType<StoredDecision & { readonly plan: unknown }>;
