import { z } from "zod";
import { amount, count, readShape, ruleLimits, text } from "../read-shape.ts";
import type { FaultMatch, FaultRule } from "./decide-fault.ts";
import { VERBS } from "./request-facts.ts";

/** A rule; its id is given to it when it has none. */
export type FaultRuleRequest = Omit<FaultRule, "id"> & { readonly id?: string };

/** What can be asked of a faulty API, in the form in which other processes send it. */
export type FaultCommand =
  | { readonly do: "inject"; readonly rules: readonly FaultRuleRequest[] }
  /** Without ids: all rules. What they have counted is forgotten with them. */
  | { readonly do: "remove"; readonly ids?: readonly string[] }
  | { readonly do: "drop-watches" | "silence-watches" | "expire-watches"; readonly match?: FaultMatch }
  | { readonly do: "go-away"; readonly ms: number }
  | { readonly do: "come-back" }
  | { readonly do: "count" };

export type FaultCounters = {
  readonly requests: number;
  readonly openWatches: number;
  readonly rules: readonly { readonly id: string; readonly matched: number; readonly injected: number }[];
  readonly watchesDropped: number;
  readonly watchesSilenced: number;
  readonly watchesExpired: number;
  readonly timesAway: number;
  /** Requests that failed because the API server behind broke the connection or was not there. */
  readonly upstreamErrors: number;
};

export const RULES_MAX = 1000;

const texts = z.array(z.string());

const match = z.strictObject({
  verbs: z.array(z.enum(VERBS)).exactOptional(),
  resources: texts.exactOptional(),
  namespaces: texts.exactOptional(),
  names: texts.exactOptional(),
  who: texts.exactOptional(),
});

const fault = z.discriminatedUnion("do", [
  z.strictObject({
    do: z.literal("answer"),
    code: z.literal([409, 429, 500, 503, 504]),
    retryAfterSeconds: amount.exactOptional(),
  }),
  z.strictObject({ do: z.literal("delay"), ms: amount }),
  z.strictObject({ do: z.enum(["drop", "lose-answer"]) }),
]);

const rule = z.strictObject({
  id: text.exactOptional(),
  match: match.default({}),
  fault,
  after: count.exactOptional(),
  ...ruleLimits,
});

const command = z.discriminatedUnion("do", [
  z.strictObject({ do: z.literal("inject"), rules: z.array(rule) }),
  z.strictObject({ do: z.literal("remove"), ids: texts.exactOptional() }),
  z.strictObject({
    do: z.enum(["drop-watches", "silence-watches", "expire-watches"]),
    match: match.exactOptional(),
  }),
  z.strictObject({ do: z.literal("go-away"), ms: amount }),
  z.strictObject({ do: z.enum(["come-back", "count"]) }),
]);

const counters = z.object({
  requests: count,
  openWatches: count,
  rules: z.array(z.object({ id: text, matched: count, injected: count })),
  watchesDropped: count,
  watchesSilenced: count,
  watchesExpired: count,
  timesAway: count,
  upstreamErrors: count,
});

/** Reads a command of another process. Throws invalid_request that names what is wrong. */
export function parseFaultCommand(body: unknown): FaultCommand {
  return readShape(command, body, "command");
}

/** Throws invalid_request for a rule that no request could match or obey. */
export function checkRule(given: FaultRuleRequest): void {
  readShape(rule, given, "rule");
}

/** Reads the answer of a faulty API to a command. */
export function parseFaultCounters(body: unknown): FaultCounters {
  return readShape(counters, body, "counters");
}
