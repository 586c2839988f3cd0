import { POLL_START, transitionPoll, type PollEvent } from "../domain/transition-poll.ts";
import { sortByRank } from "../types/workload-types.ts";
import type { LeaseSource, PolledOrder } from "./lease-source.ts";

/** What one poll brought. `isLast`: the controller has ended, and is asked no more; what came with that counts. */
export type PollAnswer =
  | {
      readonly kind: "page";
      readonly orders: readonly PolledOrder[];
      /** What came as an order and is none; the id is empty where that cannot be read either. */
      readonly unreadable: readonly { readonly id: string; readonly reason: string }[];
      readonly lastId: bigint;
      readonly isLast: boolean;
    }
  | Extract<PollEvent, { kind: "unreadable" }>
  /** `retryAfterMs`: as the controller asks. */
  | { readonly kind: "failed"; readonly retryAfterMs?: number };

export type PollSourceDeps = {
  readonly name: string;
  /** Orders from this id on, with it. Resolves also when it fails, and soon after the signal. */
  readonly poll: (from: bigint, signal: AbortSignal) => Promise<PollAnswer>;
  readonly nowMs: () => number;
  readonly pause: (delayMs: number, signal: AbortSignal) => Promise<void>;
  /** Between the beginnings of two polls, unless the first brought something new: then there may be more. */
  readonly everyMs: number;
};

/** Asks a controller for all of its orders, from the first one at each start, then for newer ones. */
export function pollSource({ name, poll, nowMs, pause, everyMs }: PollSourceDeps): LeaseSource {
  return async function* (signal) {
    let state = POLL_START;
    while (!signal.aborted) {
      const beganMs = nowMs();
      const answer = await poll(state.from, signal);
      if (isAborted(signal)) return;
      if (answer.kind === "page") {
        for (const each of sortByRank(answer.orders, ({ order }) => order.type)) {
          yield { kind: "order", source: name, ...each };
          if (isAborted(signal)) return;
        }
        for (const each of answer.unreadable) yield { kind: "unreadable", source: name, ...each };
      }
      const transition = transitionPoll(state, answer);
      const mayBeMore = answer.kind === "page" && answer.orders.length > 0 && transition.state.from > state.from;
      state = transition.state;
      if (transition.isHistoryReadNow) yield { kind: "history-read", source: name };
      if (answer.kind === "page" && answer.isLast) return;
      if (mayBeMore) continue;
      const askedMs = answer.kind === "failed" ? (answer.retryAfterMs ?? 0) : 0;
      await pause(Math.max(askedMs, beganMs + everyMs - nowMs(), 0), signal);
    }
  };
}

/** Asked anew after each wait. */
function isAborted(signal: AbortSignal): boolean {
  return signal.aborted;
}
