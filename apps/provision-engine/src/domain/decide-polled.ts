import type { LeaseRecord } from "./lease.ts";

/** The state that a controller lists with an order. */
export type PolledState = {
  readonly source: string;
  readonly withdrawn: boolean;
  /** The controller has a result of this order. */
  readonly isAnswered: boolean;
};

export type PolledVerdict = {
  readonly kind: "nothing" | "order" | "withdraw" | "report-deleted";
  readonly because: string;
};

/**
 * Decides what a listed order asks for. A controller lists all of its orders at every start, and unanswered ones in every page; answers that the controller
 * has, or that are pending, are not sent again.
 */
export function decidePolled(news: PolledState, stored: LeaseRecord | undefined): PolledVerdict {
  if (stored === undefined) {
    return news.withdrawn
      ? { kind: "report-deleted", because: "there is no such lease" }
      : { kind: "order", because: "it is new" };
  }
  const { phase, source, feedback } = stored;
  // The decision about orders checks which lease this is, and whose.
  if (source !== news.source)
    return { kind: news.withdrawn ? "nothing" : "order", because: `its lease came from ${source}` };
  // The order of a failed lease could otherwise be sent again and run.
  if (news.withdrawn && phase !== "ENDED") return { kind: "withdraw", because: "its controller withdraws it" };
  if (feedback.result || feedback.deleted) return { kind: "nothing", because: "its answer is already pending" };
  if (news.withdrawn) return { kind: "withdraw", because: "it is over, and its end is sent again" };
  if (news.isAnswered) return { kind: "nothing", because: "the controller has its result" };
  return { kind: "order", because: "the controller has no result of it" };
}
