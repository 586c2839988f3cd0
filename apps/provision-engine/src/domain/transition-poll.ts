/** The cursor of a polled source. */
export type PollState = {
  /** The first id of the next poll. It never decreases. */
  readonly from: bigint;
  /** The last id of the previous poll. */
  readonly lastId: bigint;
  /** A poll has returned nothing newer, or the last page: everything that existed at the start was read. */
  readonly isHistoryRead: boolean;
  /** A page was skipped, so the history can never be read completely. */
  readonly hasGap: boolean;
};

export type PollEvent =
  /** `lastId` comes from the server and does not grow if there is nothing newer. `isLast`: the source has ended. */
  | { readonly kind: "page"; readonly lastId: bigint; readonly isLast: boolean }
  /** A page that cannot be read; `lastId` undefined if even that is missing. */
  | { readonly kind: "unreadable"; readonly lastId: bigint | undefined }
  /** No answer, or an error. */
  | { readonly kind: "failed" };

export type PollTransition = {
  readonly state: PollState;
  /** True once: the whole history has just been read. */
  readonly isHistoryReadNow: boolean;
  readonly because: string;
};

export const POLL_START: PollState = { from: 0n, lastId: 0n, isHistoryRead: false, hasGap: false };

/** Moves the cursor by one poll. A failure does not move it; an unreadable page is skipped, so that it cannot block later ones. */
export function transitionPoll(state: PollState, event: PollEvent): PollTransition {
  if (event.kind === "failed") return { state, isHistoryReadNow: false, because: "the same page is polled again" };
  if (event.lastId === undefined) return { state, isHistoryReadNow: false, because: "the next id is unknown" };
  const isNewer = event.lastId > state.lastId;
  const lastId = isNewer ? event.lastId : state.lastId;
  const from = lastId + 1n > state.from ? lastId + 1n : state.from;
  const hasGap = state.hasGap || (event.kind === "unreadable" && from > state.from);
  const isAll = event.kind === "page" && (event.isLast || !isNewer) && !hasGap;
  const isHistoryReadNow = isAll && !state.isHistoryRead;
  return {
    state: { from, lastId, isHistoryRead: state.isHistoryRead || isHistoryReadNow, hasGap },
    isHistoryReadNow,
    because: isNewer ? "there were newer orders" : "there were no newer orders",
  };
}
