import { isOver, type Result } from "@muster/leases";
import type { LeaseRecord } from "./lease.ts";

export type FeedbackPlan =
  | { readonly kind: "nothing"; readonly because: string }
  | { readonly kind: "later"; readonly untilNs: bigint; readonly because: string }
  | {
      readonly kind: "now";
      /** Goes with what was told, or could not be. */
      readonly number: number;
      readonly result: Result | undefined;
      readonly deleted: boolean;
      readonly because: string;
    };

/** What the source of a lease has to be told now. It changes nothing of the lease, and waits for nothing else. */
export function planFeedback({ feedback, result }: LeaseRecord, nowNs: bigint): FeedbackPlan {
  const { number, deleted, notBeforeNs } = feedback;
  const unreported = feedback.result ? result : undefined;
  if (unreported === undefined && !deleted) return { kind: "nothing", because: "its source knows what it came to" };
  if (!isOver(notBeforeNs, nowNs))
    return { kind: "later", untilNs: notBeforeNs, because: "its source could not be told, or refused it" };
  const because = deleted ? "nothing of it is there any more" : "its source does not know its result";
  return { kind: "now", number, result: unreported, deleted, because };
}

/** How long what happened may wait for what happens next: of a lease that is being made, that it was ordered. */
export const MAX_GATHER_NS = 2_000_000_000n;

/**
 * When what there is to tell of a lease, to its source and to its history, is told. Each telling is a write of the record, so what is about to change again is told with
 * what it changes to, unless that takes long.
 */
export function planReport(
  record: LeaseRecord,
  isChanging: boolean,
  nowNs: bigint,
): { readonly because: string } & (
  { readonly kind: "nothing" | "now" } | { readonly kind: "later"; readonly untilNs: bigint }
) {
  const feedback = planFeedback(record, nowNs);
  const [oldest] = record.outbox;
  if (feedback.kind === "now") return { kind: "now", because: feedback.because };
  if (oldest === undefined) return feedback;
  // What another replica wrote may be of a clock that is ahead.
  const untilNs = (oldest.atNs < nowNs ? oldest.atNs : nowNs) + MAX_GATHER_NS;
  if (!isChanging || isOver(untilNs, nowNs)) return { kind: "now", because: "its history is not on the stream" };
  return {
    kind: "later",
    because: "it is told with what is about to happen",
    untilNs: feedback.kind === "later" && feedback.untilNs < untilNs ? feedback.untilNs : untilNs,
  };
}
