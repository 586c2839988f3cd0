/** A message of an order, by its place in the stream. */
export type OrderMessage = { readonly sequence: number; readonly user: string };

/** Messages that are given back to be tried later, of which nobody says whether this process or another is given them again. */
export type DeferredMessages = {
  /** Whether an earlier message of the same user waits, which this one may need: a container mounts a volume. */
  isBehind(message: OrderMessage, nowMs: number): boolean;
  /** Whether it may wait. */
  defer(message: OrderMessage, nowMs: number): "deferred" | "still-deferred" | "refused";
  /** It waits no longer. */
  done(sequence: number): void;
};

/** Remembers so many, each for a while after it was given back: what another process was given counts no more soon after. */
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
