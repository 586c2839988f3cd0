import { z } from "zod";
import { amount, count, readShape, ruleLimits, text } from "../read-shape.ts";
import type { FaultMatch, FaultRule } from "./decide-fault.ts";
import { VERBS } from "./request-facts.ts";

/** A rule; it gets an id if it has none. */
export type FaultRuleRequest = Omit<FaultRule, "id"> & { readonly id?: string };

/** The controls of a faulty API. Each resolves once it is in force, with the counters after it. */
export type FaultControls = {
  inject(...rules: readonly FaultRuleRequest[]): Promise<FaultCounters>;
  /** Removes the rules and their counts; without ids, all of them. */
  remove(...ids: readonly string[]): Promise<FaultCounters>;
  dropWatches(match?: FaultMatch): Promise<FaultCounters>;
  silenceWatches(match?: FaultMatch): Promise<FaultCounters>;
  expireWatches(match?: FaultMatch): Promise<FaultCounters>;
  /** Breaks all connections and refuses new ones for this time. */
  goAway(ms: number): Promise<FaultCounters>;
  comeBack(): Promise<FaultCounters>;
  counters(): Promise<FaultCounters>;
};

export type FaultCounters = {
  readonly requests: number;
  readonly openWatches: number;
  readonly rules: readonly { readonly id: string; readonly matched: number; readonly injected: number }[];
  readonly watchesDropped: number;
  readonly watchesSilenced: number;
  readonly watchesExpired: number;
  readonly timesAway: number;
  /** Requests that failed because the API server broke the connection or was unreachable. */
  readonly upstreamErrors: number;
};

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
  match,
  fault,
  after: count.exactOptional(),
  ...ruleLimits,
});

/** Throws invalid_request for a rule that no request could match or obey. */
export function checkRule(given: FaultRuleRequest): void {
  readShape(rule, given, "rule");
}
