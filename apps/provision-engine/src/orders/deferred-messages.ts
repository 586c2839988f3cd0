/** An order message, identified by its place in the stream. */
export type OrderMessage = { readonly sequence: number; readonly user: string };

/** Messages returned to the stream for a later attempt, which may be redelivered to this process or another one. */
export type DeferredMessages = {
  /** Whether an earlier message of the same user is deferred, which this one may depend on: a container mounts a volume. */
  isBehind(message: OrderMessage, nowMs: number): boolean;
  /** Defers a message, unless the maximum is reached. */
  defer(message: OrderMessage, nowMs: number): "deferred" | "still-deferred" | "refused";
  /** The message is no longer deferred. */
  done(sequence: number): void;
};

/** Remembers at most `maxMessages`, each for `forMs` after it was returned, because another process may have received it since. */
export function deferredMessages({
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
