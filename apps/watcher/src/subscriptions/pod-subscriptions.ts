import { throwFault } from "@muster/faults";
import { buckets } from "@muster/proto";
import { openBucket, type Change, type Watchable } from "@muster/store";
import { podStateCodec } from "./pod-state-codec.ts";
import type { Owner, PodWatchEvent } from "./pod-watch-event.ts";
import { makePodsByOwner, getOwner } from "./pods-by-owner.ts";
import { makeSubscriber, type PodUpdate } from "./subscriber.ts";
import { makeSubscription, type BucketState, type PodSubscription } from "./subscription.ts";

/** Subscriptions to the pods of many owners, one subscriber per owner. All subscriptions share one connection and one copy of the states. */
type PodSubscriptions = AsyncDisposable & {
  /**
   * Yields the current state of every pod of the owner, then each change, in order per pod. After a gap, because the reader was too slow or the connection was
   * interrupted, an item announces a new current state. An owner without pods has an empty current state. Ends at the signal, when unsubscribed (after the
   * waiting changes), when the reader leaves the loop, and at disposal. Rejects with FaultError unavailable once the connection is closed permanently. Throws
   * already_exists while the owner has a subscription.
   */
  subscribe(owner: Owner, options?: { readonly signal?: AbortSignal }): AsyncIterableIterator<PodUpdate, undefined>;
  /** Ends the owner's subscription; a later subscription starts from the current state. Throws not_found without a subscription. */
  unsubscribe(owner: Owner): void;
};

type PodSubscriptionsOptions = {
  /** Maximum changes that wait for a slow reader; default 32. */
  readonly eventBufferSize?: number;
  /** Follows only owners of this kind; default: all kinds. */
  readonly ownerKind?: string;
  /** Called with the error of an unreadable state, which is skipped. By default a process warning. */
  readonly onDecodeError?: (error: Error) => void;
};

const EVENT_BUFFER_SIZE = 32;

/** Follows the states that the watcher writes until disposed. Rejects with FaultError if the bucket cannot be opened; later interruptions are handled. */
export async function openPodSubscriptions(
  connection: Parameters<typeof openBucket>[0],
  options: PodSubscriptionsOptions = {},
): Promise<PodSubscriptions> {
  const { onDecodeError } = options;
  const bucket = await openBucket(connection, {
    name: buckets.pods,
    codec: podStateCodec,
    ...(onDecodeError !== undefined && { onDecodeError }),
  });
  return followPods(bucket, options);
}

/** Opens subscriptions, as `openPodSubscriptions` does, on any watchable bucket of pod states. */
export function followPods(bucket: Watchable<PodWatchEvent>, options: PodSubscriptionsOptions = {}): PodSubscriptions {
  const size = validSize(options.eventBufferSize ?? EVENT_BUFFER_SIZE);
  const pods = makePodsByOwner();
  const subscriptions = new Map<string, PodSubscription>();
  const following: BucketState = { whole: false, ended: false, failure: undefined };
  const stop = new AbortController();

  const onStatus = (status: "current" | "interrupted"): void => {
    const before = following.whole;
    following.whole = status === "current";
    if (before || !following.whole) return;
    for (const subscription of subscriptions.values()) {
      subscription.subscriber.resync();
      subscription.ring();
    }
  };
  const take = (change: Exclude<Change<PodWatchEvent>, { kind: "synced" }>): void => {
    const key = change.kind === "put" ? change.entry.key : change.key;
    const subscription = subscriptions.get(getOwner(key));
    if (change.kind === "put") {
      pods.put(key, change.entry.value);
      // The current state after an interruption includes the changes during the interruption.
      if (following.whole) subscription?.subscriber.change(change.entry.value);
    } else if (pods.delete(key)?.deleted === false) {
      // The watcher deletes only pods whose end is published. The state of this pod was lost with the bucket.
      subscription?.subscriber.resync();
    }
    subscription?.ring();
  };
  const follow = async (): Promise<void> => {
    const filter = options.ownerKind === undefined ? ">" : `${options.ownerKind}.>`;
    for await (const change of bucket.watch({ filter, signal: stop.signal, onStatus })) {
      if (change.kind === "synced") onStatus("current");
      else take(change);
    }
  };
  const finish = (failure: Error | undefined): void => {
    following.ended = true;
    following.failure = failure;
    for (const { ring } of subscriptions.values()) ring();
  };
  const running = follow().then(
    () => finish(undefined),
    (error: unknown) => finish(error instanceof Error ? error : new Error(String(error))),
  );

  return {
    subscribe: (owner, { signal } = {}) => {
      const id = idOf(owner);
      if (subscriptions.has(id)) throwFault({ code: "already_exists", kind: "subscription", id });
      const { subscription, iterator } = makeSubscription({
        subscriber: makeSubscriber(size),
        following,
        pods: () => pods.of(id),
        signal,
        forget: () => subscriptions.delete(id),
      });
      if (signal?.aborted !== true) subscriptions.set(id, subscription);
      return iterator;
    },
    unsubscribe: (owner) => {
      const id = idOf(owner);
      const subscription = subscriptions.get(id) ?? throwFault({ code: "not_found", kind: "subscription", id });
      subscription.end();
    },
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      for (const { end } of [...subscriptions.values()]) end();
      await running;
    },
  };
}

function idOf({ kind, id }: Owner): string {
  return `${kind}.${id}`;
}

function validSize(size: number): number {
  if (Number.isSafeInteger(size) && size >= 1) return size;
  return throwFault({ code: "invalid_request", field: "eventBufferSize", reason: `${size} is not a number from 1 on` });
}
