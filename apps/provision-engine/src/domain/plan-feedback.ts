import { isOver, type Result } from "@muster/leases";
import type { LeaseRecord } from "./lease.ts";

export type FeedbackPlan =
  | { readonly tell: "nothing" }
  | { readonly tell: "later"; readonly untilNs: bigint }
  /** `number` goes with what was told, or could not be. */
  | { readonly tell: "now"; readonly number: number; readonly result: Result | undefined; readonly deleted: boolean };

/** What the source of a lease has to be told now. It changes nothing of the lease, and waits for nothing else. */
export function planFeedback({ feedback, result }: LeaseRecord, nowNs: bigint): FeedbackPlan {
  const { number, deleted, notBeforeNs } = feedback;
  const toTell = feedback.result ? result : undefined;
  if (toTell === undefined && !deleted) return { tell: "nothing" };
  if (!isOver(notBeforeNs, nowNs)) return { tell: "later", untilNs: notBeforeNs };
  return { tell: "now", number, result: toTell, deleted };
}

/** How long what happened may wait for what happens next: of a lease that is being made, that it was ordered. */
export const GATHER_NS = 2_000_000_000n;

/**
 * When what there is to tell of a lease, to its source and to its history, is told. Each telling is a write of the record, so what is about to change again is told with
 * what it changes to, unless that takes long.
 */
export function planTelling(
  record: LeaseRecord,
  isChanging: boolean,
  nowNs: bigint,
): { readonly tell: "nothing" | "now" } | { readonly tell: "later"; readonly untilNs: bigint } {
  const feedback = planFeedback(record, nowNs);
  const [oldest] = record.outbox;
  if (feedback.tell === "now") return { tell: "now" };
  if (oldest === undefined) return feedback;
  // What another replica wrote may be of a clock that is ahead.
  const untilNs = (oldest.atNs < nowNs ? oldest.atNs : nowNs) + GATHER_NS;
  if (!isChanging || isOver(untilNs, nowNs)) return { tell: "now" };
  return {
    tell: "later",
    untilNs: feedback.tell === "later" && feedback.untilNs < untilNs ? feedback.untilNs : untilNs,
  };
}
