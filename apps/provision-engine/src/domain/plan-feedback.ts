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
