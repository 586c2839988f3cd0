import type { Order } from "@muster/leases";
import { POLL_START, transitionPoll, type PollEvent } from "../domain/decide-polled.ts";
import { sortByRank } from "../types/workload-types.ts";

export type PolledOrder = {
  readonly order: Order;
  readonly withdrawn: boolean;
  /** The controller has a result of the order. */
  readonly isAnswered: boolean;
};

/** A job from a source. */
export type LeaseJob =
  | ({ readonly kind: "order"; readonly source: string } & PolledOrder)
  /** An entry that is not a valid order. */
  | { readonly kind: "unreadable"; readonly source: string; readonly id: string; readonly reason: string }
  /** All orders that existed when the source was opened have been delivered. */
  | { readonly kind: "history-read"; readonly source: string };

/** Yields jobs until the signal or the end of the source. The next job is requested once the previous one was taken. */
export type LeaseSource = (signal: AbortSignal) => AsyncIterable<LeaseJob>;

/** The outcome of one poll. `isLast`: the controller has ended and is not polled again; the orders of this page still count. */
export type PollAnswer =
  | {
      readonly kind: "page";
      readonly orders: readonly PolledOrder[];
      /** Entries that are not valid orders; the id is empty if it cannot be read. */
      readonly unreadable: readonly { readonly id: string; readonly reason: string }[];
      readonly lastId: bigint;
      readonly isLast: boolean;
    }
  | Extract<PollEvent, { kind: "unreadable" }>
  /** `retryAfterMs`: the pause that the controller requests. */
  | { readonly kind: "failed"; readonly retryAfterMs?: number };

export type PollSourceDeps = {
  readonly name: string;
  /** Polls the orders from this id (inclusive). Resolves even on failure, and soon after the signal. */
  readonly poll: (from: bigint, signal: AbortSignal) => Promise<PollAnswer>;
  readonly nowMs: () => number;
  readonly pause: (delayMs: number, signal: AbortSignal) => Promise<void>;
  /** Interval between the starts of two polls; a poll with new orders is followed by another immediately. */
  readonly everyMs: number;
};

/** Polls a controller for all of its orders at each start, and then for newer ones. */
export function pollSource({ name, poll, nowMs, pause, everyMs }: PollSourceDeps): LeaseSource {
  return async function* (signal) {
    let state = POLL_START;
    // Not `runPeriodically`: the consumer sets the pace of a generator, and the interval is between the starts of two polls.
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

/** Reads the signal again after each wait, because TypeScript assumes that its value stays. */
function isAborted(signal: AbortSignal): boolean {
  return signal.aborted;
}
