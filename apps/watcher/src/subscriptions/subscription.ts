import type { PodWatchEvent } from "./pod-watch-event.ts";
import type { PodUpdate, PodSubscriber } from "./subscriber.ts";

/** State of the followed bucket. `whole`: the states are complete. `ended`: no further change arrives; `failure` is the error, if any. */
export type BucketState = { whole: boolean; ended: boolean; failure: Error | undefined };

/** One subscription, from the producer's side. */
export type PodSubscription = {
  readonly subscriber: PodSubscriber;
  /** Wakes the reader, because an item may wait. */
  ring(): void;
  /** Ends the subscription after the waiting items are read. */
  end(): void;
};

type SubscriptionOptions = {
  readonly subscriber: PodSubscriber;
  readonly following: BucketState;
  readonly pods: () => readonly PodWatchEvent[];
  readonly signal: AbortSignal | undefined;
  /** Called once when the subscription ends, for any reason. */
  readonly forget: () => void;
};

/** Creates a subscription and the iterator that reads it. */
export function makeSubscription(options: SubscriptionOptions): {
  readonly subscription: PodSubscription;
  readonly iterator: AsyncIterableIterator<PodUpdate, undefined>;
} {
  const { subscriber, following, pods, signal } = options;
  let open = true;
  let reading = true;
  let arrived = Promise.withResolvers<undefined>();
  const ring = (): void => {
    arrived.resolve(undefined);
    arrived = Promise.withResolvers();
  };
  const end = (): void => {
    if (!open) return;
    open = false;
    signal?.removeEventListener("abort", leave);
    options.forget();
    ring();
  };
  const leave = (): void => {
    reading = false;
    end();
  };
  signal?.addEventListener("abort", leave);
  if (signal?.aborted === true) leave();

  const next = async (): Promise<IteratorResult<PodUpdate, undefined>> => {
    for (;;) {
      const update = reading ? subscriber.take(following.whole, pods) : undefined;
      if (update !== undefined) return { done: false, value: update };
      if (!open) return { done: true, value: undefined };
      if (following.ended) {
        leave();
        if (following.failure !== undefined) throw following.failure;
        continue;
      }
      await arrived.promise;
    }
  };
  const iterator: AsyncIterableIterator<PodUpdate, undefined> = {
    next,
    return: () => {
      leave();
      return Promise.resolve({ done: true, value: undefined });
    },
    [Symbol.asyncIterator]: () => iterator,
  };
  return { subscription: { subscriber, ring, end }, iterator };
}
