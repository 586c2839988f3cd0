import type { Order } from "@muster/leases";
import { POLL_START, transitionPoll, type PollEvent } from "../domain/transition-poll.ts";
import { sortByRank } from "../domain/workload-types.ts";
import type { LeaseSource } from "./lease-source.ts";

export type PolledOrder = { readonly order: Order; readonly withdrawn: boolean };

/** What one poll brought. `isLast`: the controller has ended, and is asked no more; what came with that counts. */
export type PollAnswer =
  | {
      readonly kind: "page";
      readonly orders: readonly PolledOrder[];
      readonly lastId: bigint;
      readonly isLast: boolean;
    }
  | Exclude<PollEvent, { kind: "page" }>;

export type PollSourceDeps = {
  readonly name: string;
  /** Orders from this id on, with it. Resolves also when it fails, and soon after the signal. */
  readonly poll: (from: bigint, signal: AbortSignal) => Promise<PollAnswer>;
  readonly nowMs: () => number;
  readonly pause: (delayMs: number, signal: AbortSignal) => Promise<void>;
  /** Between the beginnings of two polls. */
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
      }
      const transition = transitionPoll(state, answer);
      state = transition.state;
      if (transition.tellHistoryRead) yield { kind: "history-read", source: name };
      if (answer.kind === "page" && answer.isLast) return;
      await pause(Math.max(0, beganMs + everyMs - nowMs()), signal);
    }
  };
}

/** Asked anew after each wait. */
function isAborted(signal: AbortSignal): boolean {
  return signal.aborted;
}
