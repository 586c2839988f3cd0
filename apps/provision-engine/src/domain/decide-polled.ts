import type { LeaseRecord } from "./lease.ts";

/** What a controller says of an order beside the order itself. */
export type PolledState = {
  readonly source: string;
  readonly withdrawn: boolean;
  /** The controller has a result of it. */
  readonly isAnswered: boolean;
};

export type PolledVerdict = {
  readonly kind: "nothing" | "order" | "withdraw" | "report-deleted";
  readonly because: string;
};

/**
 * What an order that a controller lists asks for. A controller lists all of its orders again at every start, and those without a result in every page: what it knows, or is
 * about to be told, is not told again.
 */
export function decidePolled(news: PolledState, stored: LeaseRecord | undefined): PolledVerdict {
  if (stored === undefined) {
    return news.withdrawn
      ? { kind: "report-deleted", because: "there is no such lease" }
      : { kind: "order", because: "it is new" };
  }
  const { phase, source, feedback } = stored;
  // Which lease that is, and whose, is decided where orders are.
  if (source !== news.source)
    return { kind: news.withdrawn ? "nothing" : "order", because: `its lease came from ${source}` };
  // Of one that failed the order could be sent again, and would run.
  if (news.withdrawn && phase !== "ENDED") return { kind: "withdraw", because: "its controller withdraws it" };
  if (feedback.result || feedback.deleted) return { kind: "nothing", because: "it is about to be told" };
  if (news.withdrawn) return { kind: "withdraw", because: "it is over, and that is told again" };
  if (news.isAnswered) return { kind: "nothing", because: "the controller knows what it came to" };
  return { kind: "order", because: "the controller does not know what it came to" };
}
