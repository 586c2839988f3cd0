import { describeFault, isRetryable, type Fault } from "@muster/faults";
import { nsFromMs } from "@muster/leases";
import { decideRetry, type RetryPolicy } from "./decide-retry.ts";
import type { FeedbackPending } from "./lease.ts";
import type { LeaseChange } from "./transition-lease.ts";

export type FeedbackPolicy = {
  /** Feedback that did not arrive is retried until it does. */
  readonly retry: RetryPolicy;
  /** Pause after the source refuses feedback. */
  readonly refusedRetryMs: number;
  /** Feedback is given up after this number of refusals. */
  readonly maxRefusals: number;
};

/**
 * Decides when to retry failed feedback; `fault` is undefined for an unexpected error. Feedback that did not arrive is retried forever, no sooner than the
 * source asks. Refused feedback is retried a few times with long pauses, in case the source is repaired.
 */
export function decideFeedbackRetry(
  fault: Fault | undefined,
  { number, attempts, refusals }: Pick<FeedbackPending, "number" | "attempts" | "refusals">,
  nowNs: bigint,
  policy: FeedbackPolicy,
): Extract<LeaseChange, { kind: "feedback-delayed" | "feedback-refused" }> {
  if (fault !== undefined && isRefusal(fault)) {
    const isLast = refusals + 1 >= policy.maxRefusals;
    const notBeforeNs = isLast ? undefined : nowNs + nsFromMs(policy.refusedRetryMs);
    return { kind: "feedback-refused", number, message: describeFault(fault), notBeforeNs };
  }
  const ownNs = decideRetry(attempts + 1, nowNs, policy.retry);
  const askedNs = fault?.code === "unavailable" ? nowNs + nsFromMs(Math.round(fault.retryAfterMs)) : nowNs;
  return { kind: "feedback-delayed", number, notBeforeNs: askedNs > ownNs ? askedNs : ownNs };
}

/** These faults are not retryable, but do not mean that the source refuses the feedback. */
function isRefusal(fault: Fault): boolean {
  return !isRetryable(fault) && fault.code !== "cancelled" && fault.code !== "internal";
}
