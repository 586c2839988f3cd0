import type { PodWatchEvent } from "./pod-watch-event.ts";

/** A message to a subscriber. */
export type PodNews =
  /** Every pod of the owner as it is now. Replaces all earlier news; a pod that is missing here is forgotten. */
  | {
      readonly kind: "current";
      readonly pods: readonly PodWatchEvent[];
      /** The first state; changes did not fit into the buffer; or the connection was gone, and changes in between are only in this state. */
      readonly because: "subscribed" | "overflowed" | "resync";
    }
  | { readonly kind: "changed"; readonly event: PodWatchEvent }
  /** The buffer was full: this many changes are only in the current state, which comes next. */
  | { readonly kind: "overflowed"; readonly missed: number };

type Current = Extract<PodNews, { kind: "current" }>;

/** The queue of one reader: at most `size` changes, and then perhaps a request for the current state. Its memory is bounded, however slow the reader is. */
export type Subscriber = {
  /** A pod is now like this. Never waits. */
  change(event: PodWatchEvent): void;
  /** Changes may have been missed. */
  resync(): void;
  /** The next message, with the pods as they are at this moment; undefined when nothing waits. `whole`: the pods are reliable. */
  take(whole: boolean, pods: () => readonly PodWatchEvent[]): PodNews | undefined;
};

export function makeSubscriber(size: number): Subscriber {
  const waiting: PodWatchEvent[] = [];
  let missed = 0;
  let current: Current["because"] | undefined = "subscribed";
  return {
    change: (event) => {
      // The current state that comes next includes it, and no earlier news contradict it.
      if (current !== undefined && missed === 0) return;
      if (current === undefined && waiting.length < size) {
        waiting.push(event);
        return;
      }
      missed += 1;
      current = "overflowed";
    },
    resync: () => {
      current ??= "resync";
    },
    take: (whole, pods) => {
      const event = waiting.shift();
      if (event !== undefined) return { kind: "changed", event };
      if (missed > 0) {
        const news: PodNews = { kind: "overflowed", missed };
        missed = 0;
        return news;
      }
      if (current === undefined || !whole) return undefined;
      const news: PodNews = { kind: "current", pods: pods(), because: current };
      current = undefined;
      return news;
    },
  };
}
