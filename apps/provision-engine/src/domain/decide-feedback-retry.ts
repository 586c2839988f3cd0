import { describeFault, isRetryable, type Fault } from "@muster/faults";
import { nsFromMs } from "@muster/leases";
import { decideRetry, type RetryPolicy } from "./decide-retry.ts";
import type { FeedbackPending } from "./lease.ts";
import type { LeaseChange } from "./transition-lease.ts";

export type FeedbackPolicy = {
  /** Of what did not arrive, which is told until it does. */
  readonly retry: RetryPolicy;
  /** After the source has refused it. */
  readonly refusedRetryMs: number;
  /** After so many refusals it is told no more. */
  readonly maxRefusals: number;
};

/**
 * What becomes of a thing that could not be told; the fault is undefined where nobody knows why. What did not arrive is told again soon and for ever, no sooner than the
 * other side asks for. What arrived and was refused would be refused again: it is told again a few times, far apart, should somebody repair the other side.
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

/** Of the faults that are not retryable, these say nothing of what was told. */
function isRefusal(fault: Fault): boolean {
  return !isRetryable(fault) && fault.code !== "cancelled" && fault.code !== "internal";
}
