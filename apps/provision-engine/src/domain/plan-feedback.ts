import { isOver, type Result, toNanosecondsFromMs } from "@muster/leases";
import { describeFault, isRetryable, type Fault } from "@muster/faults";
import type { LeaseRecord, FeedbackPending } from "./lease.ts";
import type { LeaseChange } from "./lease-change.ts";
import { decideRetry, type RetryPolicy } from "./decide-retry.ts";

/**
 * Why feedback or history is or is not sent, and the functions that set it:
 * - nothing-to-report; refused-or-lost, it is retried after a pause; end-unreported; result-unreported: `planFeedback`
 * - history-not-published; change-imminent, it is published with that: `planReport`
 */
type FeedbackReason = "nothing-to-report" | "refused-or-lost" | "end-unreported" | "result-unreported";
type ReportReason = FeedbackReason | "history-not-published" | "change-imminent";

type FeedbackPlan =
  | { readonly kind: "nothing"; readonly because: FeedbackReason }
  | { readonly kind: "later"; readonly untilNs: bigint; readonly because: FeedbackReason }
  | {
      readonly kind: "now";
      /** Identifies the feedback in its acknowledgement. */
      readonly number: number;
      readonly result: Result | undefined;
      readonly deleted: boolean;
      readonly because: FeedbackReason;
    };

/** Decides which feedback is due for the source of a lease. Does not change the lease. */
export function planFeedback({ feedback, result }: LeaseRecord, nowNs: bigint): FeedbackPlan {
  const { number, deleted, notBeforeNs } = feedback;
  const unreported = feedback.result ? result : undefined;
  if (unreported === undefined && !deleted) return { kind: "nothing", because: "nothing-to-report" };
  if (!isOver(notBeforeNs, nowNs)) return { kind: "later", untilNs: notBeforeNs, because: "refused-or-lost" };
  const because = deleted ? "end-unreported" : "result-unreported";
  return { kind: "now", number, result: unreported, deleted, because };
}

/** Maximum time that an event waits to be published together with the next one. */
export const MAX_GATHER_NS = 2_000_000_000n;

/**
 * Decides when to send feedback and publish history of a lease. Each report is a write of the record, so a report waits for an imminent change, but no longer
 * than MAX_GATHER_NS.
 */
export function planReport(
  record: LeaseRecord,
  isChanging: boolean,
  nowNs: bigint,
): { readonly because: ReportReason } & (
  { readonly kind: "nothing" | "now" } | { readonly kind: "later"; readonly untilNs: bigint }
) {
  const feedback = planFeedback(record, nowNs);
  const [oldest] = record.outbox;
  if (feedback.kind === "now") return { kind: "now", because: feedback.because };
  if (oldest === undefined) return feedback;
  // Another replica may have written the event with a clock that is ahead.
  const untilNs = (oldest.atNs < nowNs ? oldest.atNs : nowNs) + MAX_GATHER_NS;
  if (!isChanging || isOver(untilNs, nowNs)) return { kind: "now", because: "history-not-published" };
  return {
    kind: "later",
    because: "change-imminent",
    untilNs: feedback.kind === "later" && feedback.untilNs < untilNs ? feedback.untilNs : untilNs,
  };
}

export type FeedbackPolicy = {
  /** Pauses before feedback that did not arrive is sent again, until it arrives. */
  readonly retry: RetryPolicy;
  /** Pause after the source refuses feedback. */
  readonly refusedRetryMs: number;
  /** Feedback is abandoned after this number of refusals. */
  readonly maxRefusals: number;
};

/**
 * Decides when to retry failed feedback; `fault` is undefined for an unexpected error. Feedback that did not arrive is retried forever, no sooner than the
 * source requests. Refused feedback is retried a few times with long pauses, in case the source is repaired.
 */
export function decideFeedbackRetry(
  fault: Fault | undefined,
  { number, attempts, refusals }: Pick<FeedbackPending, "number" | "attempts" | "refusals">,
  nowNs: bigint,
  policy: FeedbackPolicy,
): Extract<LeaseChange, { kind: "feedback-delayed" | "feedback-refused" }> {
  if (fault !== undefined && isRefusal(fault)) {
    const isLast = refusals + 1 >= policy.maxRefusals;
    const notBeforeNs = isLast ? undefined : nowNs + toNanosecondsFromMs(policy.refusedRetryMs);
    return { kind: "feedback-refused", number, message: describeFault(fault), notBeforeNs };
  }
  const ownNs = decideRetry(attempts + 1, nowNs, policy.retry);
  const askedNs = fault?.code === "unavailable" ? nowNs + toNanosecondsFromMs(Math.round(fault.retryAfterMs)) : nowNs;
  return { kind: "feedback-delayed", number, notBeforeNs: askedNs > ownNs ? askedNs : ownNs };
}

/** These faults are not retryable, but do not mean that the source refuses the feedback. */
function isRefusal(fault: Fault): boolean {
  return !isRetryable(fault) && fault.code !== "cancelled" && fault.code !== "internal";
}
