import type { LeaseRecord } from "./lease.ts";

/** The state that a controller lists with an order. */
type PolledState = {
  readonly source: string;
  readonly withdrawn: boolean;
  /** The controller has a result of this order. */
  readonly isAnswered: boolean;
};

/** Set by `decidePolled`. */
type PolledReason =
  | "no-such-lease"
  | "order-is-new"
  | "lease-of-another-source"
  | "withdrawn-by-source"
  | "answer-pending"
  | "end-sent-again"
  | "is-answered"
  | "is-unanswered";

export type PolledVerdict = {
  readonly kind: "nothing" | "order" | "withdraw" | "report-deleted";
  readonly because: PolledReason;
};

/**
 * Decides the request of a listed order. A controller lists all of its orders at every start, and unanswered ones in every page. Answers that the controller
 * has, or that are pending, are not sent again.
 */
export function decidePolled(news: PolledState, stored: LeaseRecord | undefined): PolledVerdict {
  if (stored === undefined) {
    return news.withdrawn
      ? { kind: "report-deleted", because: "no-such-lease" }
      : { kind: "order", because: "order-is-new" };
  }
  const { phase, source, feedback } = stored;
  // The decision about orders checks the identity of the lease and of its user.
  if (source !== news.source) return { kind: news.withdrawn ? "nothing" : "order", because: "lease-of-another-source" };
  // The order of a failed lease could otherwise be sent again and run.
  if (news.withdrawn && phase !== "ENDED") return { kind: "withdraw", because: "withdrawn-by-source" };
  if (feedback.result || feedback.deleted) return { kind: "nothing", because: "answer-pending" };
  if (news.withdrawn) return { kind: "withdraw", because: "end-sent-again" };
  if (news.isAnswered) return { kind: "nothing", because: "is-answered" };
  return { kind: "order", because: "is-unanswered" };
}

export type PollState = {
  /** The first id of the next poll. This id never decreases. */
  readonly from: bigint;
  /** The last id of the previous poll. */
  readonly lastId: bigint;
  /** A poll has returned no newer order, or the last page: all orders that existed at the start were read. */
  readonly isHistoryRead: boolean;
  /** A page was skipped, so the history can never be read completely. */
  readonly hasGap: boolean;
};

export type PollEvent =
  /** `lastId` comes from the server and stays unchanged if no newer order exists. `isLast`: the source has ended. */
  | { readonly kind: "page"; readonly lastId: bigint; readonly isLast: boolean }
  /** A page that cannot be read; `lastId` is undefined if it is missing, too. */
  | { readonly kind: "unreadable"; readonly lastId: bigint | undefined }
  /** No answer, or an error. */
  | { readonly kind: "failed" };

type PollTransition = {
  readonly state: PollState;
  /** True only in the transition that completes the read of the history. */
  readonly isHistoryReadNow: boolean;
  readonly because: "poll-failed" | "next-id-unknown" | "newer-orders" | "no-newer-orders";
};

export const POLL_START: PollState = { from: 0n, lastId: 0n, isHistoryRead: false, hasGap: false };

/** Moves the cursor by one poll. A failure does not move the cursor. An unreadable page is skipped, so that it cannot block later ones. */
export function transitionPoll(state: PollState, event: PollEvent): PollTransition {
  if (event.kind === "failed") return { state, isHistoryReadNow: false, because: "poll-failed" };
  if (event.lastId === undefined) return { state, isHistoryReadNow: false, because: "next-id-unknown" };
  const isNewer = event.lastId > state.lastId;
  const lastId = isNewer ? event.lastId : state.lastId;
  const from = lastId + 1n > state.from ? lastId + 1n : state.from;
  const hasGap = state.hasGap || (event.kind === "unreadable" && from > state.from);
  const isAll = event.kind === "page" && (event.isLast || !isNewer) && !hasGap;
  const isHistoryReadNow = isAll && !state.isHistoryRead;
  return {
    state: { from, lastId, isHistoryRead: state.isHistoryRead || isHistoryReadNow, hasGap },
    isHistoryReadNow,
    because: isNewer ? "newer-orders" : "no-newer-orders",
  };
}
