/** A message of an order, by its place in the stream. */
export type OrderMessage = { readonly sequence: number; readonly user: string };

/** Messages that are given back to be tried later, of which nobody says whether this process or another is given them again. */
export type LaterMessages = {
  /** Whether an earlier message of the same user waits, which this one may need: a container mounts a volume. */
  isBehind(message: OrderMessage, nowMs: number): boolean;
  /** Whether it may wait. */
  wait(message: OrderMessage, nowMs: number): "begins" | "goes on" | "refused";
  /** It waits no longer. */
  done(sequence: number): void;
};

/** Remembers so many, each for a while after it was given back: what another process was given counts no more soon after. */
export function laterMessages({ most, forMs }: { readonly most: number; readonly forMs: number }): LaterMessages {
  const waiting = new Map<number, { readonly user: string; readonly untilMs: number }>();
  const forget = (nowMs: number): void => {
    for (const [sequence, { untilMs }] of waiting) if (untilMs < nowMs) waiting.delete(sequence);
  };
  return {
    isBehind: ({ sequence, user }, nowMs) => {
      forget(nowMs);
      return [...waiting].some(([earlier, each]) => each.user === user && earlier < sequence);
    },
    wait: ({ sequence, user }, nowMs) => {
      forget(nowMs);
      const isKnown = waiting.has(sequence);
      if (!isKnown && waiting.size >= most) return "refused";
      waiting.set(sequence, { user, untilMs: nowMs + forMs });
      return isKnown ? "goes on" : "begins";
    },
    done: (sequence) => void waiting.delete(sequence),
  };
}
