/** An order that exceeds a limit of its user or the room of the store. */
type WaitingOrder = { readonly order: { readonly id: string; readonly user: string } };

/** Orders to retry later. An order waits behind earlier orders of its user, on which it may depend: a container mounts a volume. */
export type WaitingOrders<Job extends WaitingOrder> = {
  has(id: string): boolean;
  /** Whether an earlier order of the same user waits. */
  isBehind(job: Job): boolean;
  /** Whether the order may wait; an order that already waits may. */
  hasRoom(id: string): boolean;
  /** Adds an order, or replaces the one of the same id in its place. Returns whether it is new. */
  put(job: Job): boolean;
  /** Whether this is still the waiting order of its id. */
  isCurrent(job: Job): boolean;
  drop(id: string): void;
  /** The orders of each user, in the order of their arrival. */
  byUser(): readonly (readonly Job[])[];
  /** The ids of all waiting orders. */
  ids(): readonly string[];
};

/** Holds about `maxOrders`; orders being retried at the same moment may exceed it. */
export function makeWaitingOrders<Job extends WaitingOrder>(maxOrders: number): WaitingOrders<Job> {
  const jobs = new Map<string, Job>();
  return {
    has: (id) => jobs.has(id),
    isBehind: ({ order }) => {
      for (const { order: before } of jobs.values()) {
        if (before.id === order.id) return false;
        if (before.user === order.user) return true;
      }
      return false;
    },
    hasRoom: (id) => jobs.has(id) || jobs.size < maxOrders,
    put: (job) => {
      const isNew = !jobs.has(job.order.id);
      jobs.set(job.order.id, job);
      return isNew;
    },
    isCurrent: (job) => jobs.get(job.order.id) === job,
    drop: (id) => void jobs.delete(id),
    byUser: () => [...Map.groupBy(jobs.values(), ({ order }) => order.user).values()],
    ids: () => [...jobs.keys()],
  };
}

/** An order message, identified by its place in the stream. */
type OrderMessage = { readonly sequence: number; readonly user: string };

/** Messages returned to the stream for a later attempt, which may be redelivered to this process or another one. */
type DeferredMessages = {
  /** Whether an earlier message of the same user is deferred, on which this message may depend: a container mounts a volume. */
  isBehind(message: OrderMessage, nowMs: number): boolean;
  /** Defers a message, unless the maximum is reached. */
  defer(message: OrderMessage, nowMs: number): "deferred" | "still-deferred" | "refused";
  /** The message is no longer deferred. */
  done(sequence: number): void;
};

/** Remembers at most `maxMessages`, each for `forMs` after it was returned, because another process may have received it since. */
export function makeDeferredMessages({
  maxMessages,
  forMs,
}: {
  readonly maxMessages: number;
  readonly forMs: number;
}): DeferredMessages {
  const waiting = new Map<number, { readonly user: string; readonly untilMs: number }>();
  const forget = (nowMs: number): void => {
    for (const [sequence, { untilMs }] of waiting) if (untilMs < nowMs) waiting.delete(sequence);
  };
  return {
    isBehind: ({ sequence, user }, nowMs) => {
      forget(nowMs);
      return [...waiting].some(([earlier, each]) => each.user === user && earlier < sequence);
    },
    defer: ({ sequence, user }, nowMs) => {
      forget(nowMs);
      const isKnown = waiting.has(sequence);
      if (!isKnown && waiting.size >= maxMessages) return "refused";
      waiting.set(sequence, { user, untilMs: nowMs + forMs });
      return isKnown ? "still-deferred" : "deferred";
    },
    done: (sequence) => void waiting.delete(sequence),
  };
}
