import { decideRetry, type RetryPolicy } from "./decide-retry.ts";
import type { FeedbackPending, LeaseRecord } from "./lease.ts";
import {
  changeLease,
  keepUnchanged,
  withEvent,
  type LeaseChange,
  type LeaseTransition,
  type SignatureChange,
} from "./lease-change.ts";

/** Applies the outcome of sending feedback. */
export function transitionFeedback(
  record: LeaseRecord,
  change: Extract<LeaseChange, { kind: "feedback-sent" | "feedback-delayed" | "feedback-refused" }>,
  nowNs: bigint,
): LeaseTransition {
  const { feedback } = record;
  if (change.number !== feedback.number || !(feedback.result || feedback.deleted))
    return keepUnchanged("feedback-superseded");
  if (change.kind === "feedback-sent") {
    const reported = {
      ...record,
      result: withSignature(record, change.resigned),
      feedback: { ...feedback, ...REPORTED },
    };
    return changeLease(reported, "feedback-sent");
  }
  if (change.kind === "feedback-delayed") {
    const delayed = { ...feedback, attempts: feedback.attempts + 1, notBeforeNs: change.notBeforeNs };
    return changeLease({ ...record, feedback: delayed }, "feedback-delayed");
  }
  const { message, notBeforeNs } = change;
  const refusals = feedback.refusals + 1;
  if (notBeforeNs === undefined) {
    const givenUp = { ...record, feedback: { ...feedback, ...REPORTED } };
    return changeLease(
      withEvent(givenUp, "ANSWER_REFUSED", `given up after ${refusals}: ${message}`, nowNs),
      "feedback-given-up",
    );
  }
  const refused = { ...record, feedback: { ...feedback, refusals, notBeforeNs } };
  const isFirst = refusals === 1;
  return changeLease(isFirst ? withEvent(refused, "ANSWER_REFUSED", message, nowNs) : refused, "feedback-refused");
}

/** A newer result keeps its own signature. */
function withSignature({ result }: LeaseRecord, resigned: SignatureChange | undefined): LeaseRecord["result"] {
  if (result === undefined || resigned === undefined || Buffer.compare(result.signature, resigned.before) !== 0)
    return result;
  return { ...result, signature: resigned.after };
}

/** Pauses between repeated answers to a repeated order. */
const REPEAT: RetryPolicy = { firstMs: 60_000, maxMs: 3_600_000 };

/** The first repetition is immediate and recorded. Later repetitions wait for a growing pause, because a client may resend an order without limit. */
export function resendFeedback(record: LeaseRecord, what: FeedbackParts, nowNs: bigint): LeaseTransition {
  const { result, deleted, repeats } = record.feedback;
  if (repeats > 0 && (result || deleted)) return keepUnchanged("answer-pending");
  const feedback = { ...getPendingFeedback(record, what), repeats: repeats + 1 };
  const because = "answer-sent-again";
  if (repeats > 0)
    return changeLease(
      { ...record, feedback: { ...feedback, notBeforeNs: decideRetry(repeats, nowNs, REPEAT) } },
      because,
    );
  return changeLease(withEvent({ ...record, feedback }, "RESENT", "its order came again", nowNs), because);
}

type FeedbackParts = Pick<FeedbackPending, "result" | "deleted">;

const REPORTED = { result: false, deleted: false, attempts: 0, refusals: 0, notBeforeNs: 0n };

/** Returns new feedback, which supersedes the pending one. */
export function getPendingFeedback({ feedback }: LeaseRecord, what: FeedbackParts): FeedbackPending {
  return { ...REPORTED, ...what, repeats: 0, number: feedback.number + 1 };
}
