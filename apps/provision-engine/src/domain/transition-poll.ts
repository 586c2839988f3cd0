/** Where a source that is polled stands. */
export type PollState = {
  /** Id from which on orders are asked for. It never goes back. */
  readonly from: bigint;
  /** Last id of the poll before. */
  readonly lastId: bigint;
  /** A poll has once brought nothing newer, or the last there is: all that was there at the start was seen. */
  readonly isHistoryRead: boolean;
  /** A page was passed over: what stood in it is not known, and the history is never all read. */
  readonly hasGap: boolean;
};

export type PollEvent =
  /** `lastId` as the server says: not above the one before where it had nothing newer. `isLast`: there never is anything after it. */
  | { readonly kind: "page"; readonly lastId: bigint; readonly isLast: boolean }
  /** An answer that cannot be read; undefined: not even its last id. */
  | { readonly kind: "unreadable"; readonly lastId: bigint | undefined }
  /** No answer, or one that says that it failed. */
  | { readonly kind: "failed" };

export type PollTransition = {
  readonly state: PollState;
  /** That all history was read is told now, and only once. */
  readonly isHistoryReadNow: boolean;
  readonly because: string;
};

export const POLL_START: PollState = { from: 0n, lastId: 0n, isHistoryRead: false, hasGap: false };

/** What one poll does to the cursor. A failure leaves it; a page that cannot be read is passed over, so that it cannot stop those behind it. */
export function transitionPoll(state: PollState, event: PollEvent): PollTransition {
  if (event.kind === "failed") return { state, isHistoryReadNow: false, because: "the same is asked for again" };
  if (event.lastId === undefined)
    return { state, isHistoryReadNow: false, because: "it is not known what would come next" };
  const isNewer = event.lastId > state.lastId;
  const lastId = isNewer ? event.lastId : state.lastId;
  const from = lastId + 1n > state.from ? lastId + 1n : state.from;
  const hasGap = state.hasGap || (event.kind === "unreadable" && from > state.from);
  const isAll = event.kind === "page" && (event.isLast || !isNewer) && !hasGap;
  const tellHistoryRead = isAll && !state.isHistoryRead;
  return {
    state: { from, lastId, isHistoryRead: state.isHistoryRead || tellHistoryRead, hasGap },
    isHistoryReadNow: tellHistoryRead,
    because: isNewer ? "there was something newer" : "there is nothing newer",
  };
}
