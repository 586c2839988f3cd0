import type { PodWatchEvent } from "./pod-watch-event.ts";

/** A message to a subscriber. */
export type PodUpdate =
  /** The current state of every pod of the owner. It replaces all earlier items; a missing pod no longer exists. */
  | {
      readonly kind: "current";
      readonly pods: readonly PodWatchEvent[];
      /** Why the state was sent: it is the first one, changes exceeded the buffer, or the connection was interrupted. */
      readonly because: "subscribed" | "overflowed" | "resync";
    }
  | { readonly kind: "changed"; readonly event: PodWatchEvent }
  /** The buffer was full: the next item, the current state, includes this many changes that no item shows. */
  | { readonly kind: "overflowed"; readonly missed: number };

type Current = Extract<PodUpdate, { kind: "current" }>;

/** The queue of one reader: at most `size` changes, then possibly a request for the current state. Its memory is bounded for any reader. */
export type PodSubscriber = {
  /** Adds a changed pod. Never waits. */
  change(event: PodWatchEvent): void;
  /** Requests the current state, because changes may have been missed. */
  resync(): void;
  /** Returns the next message, with the pods as they are at this moment; undefined if no message waits. `whole`: the pods are complete. */
  take(whole: boolean, pods: () => readonly PodWatchEvent[]): PodUpdate | undefined;
};

export function makeSubscriber(size: number): PodSubscriber {
  const waiting: PodWatchEvent[] = [];
  let missed = 0;
  let current: Current["because"] | undefined = "subscribed";
  return {
    change: (event) => {
      // The pending current state includes the change, and no earlier item contradicts it.
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
        const update: PodUpdate = { kind: "overflowed", missed };
        missed = 0;
        return update;
      }
      if (current === undefined || !whole) return undefined;
      const update: PodUpdate = { kind: "current", pods: pods(), because: current };
      current = undefined;
      return update;
    },
  };
}
