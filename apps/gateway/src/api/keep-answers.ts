/** Answers that are requested once and then kept for a while. */
export type KeptAnswers<Value> = {
  /** Returns the kept answer, or the answer of `ask`, which concurrent callers share. A failure is not kept. */
  get(key: string, ask: () => Promise<Value>): Promise<Value>;
  readonly size: number;
};

/** Keeps each answer for `keptMs`, and at most `maxEntries` answers: a new answer replaces the oldest. `nowMs` is a monotonic clock. */
export function keepAnswers<Value>({
  keptMs,
  maxEntries,
  nowMs,
}: {
  readonly keptMs: number;
  readonly maxEntries: number;
  readonly nowMs: () => number;
}): KeptAnswers<Value> {
  // The answers, sorted by the time of their request.
  const kept = new Map<string, { readonly answer: Promise<Value>; readonly untilMs: number }>();
  return {
    get: (key, ask) => {
      const known = kept.get(key);
      if (known !== undefined && known.untilMs > nowMs()) return known.answer;
      kept.delete(key);
      const oldest = kept.size >= maxEntries ? kept.keys().next().value : undefined;
      if (oldest !== undefined) kept.delete(oldest);
      const answer = ask();
      const entry = { answer, untilMs: nowMs() + keptMs };
      kept.set(key, entry);
      answer.catch(() => {
        if (kept.get(key) === entry) kept.delete(key);
      });
      return answer;
    },
    get size() {
      return kept.size;
    },
  };
}
