/** Who wants to hear of changes that carry nothing: whoever is told looks again. */
export type Listeners = {
  tell(): void;
  /** Returns the way to stop. */
  onChange(listener: () => void): () => void;
  /** Resolves at the next change, after the time, or when the signal is aborted. */
  changed(signal: AbortSignal, withinMs?: number): Promise<void>;
};

export function openListeners(): Listeners {
  const listeners = new Set<() => void>();
  return {
    tell: () => {
      for (const listener of [...listeners]) callListener(listener);
    },
    onChange: (listener) => {
      listeners.add(listener);
      return () => {
        listeners.delete(listener);
      };
    },
    changed: (signal, withinMs) =>
      new Promise((resolve) => {
        const done = (): void => {
          listeners.delete(done);
          signal.removeEventListener("abort", done);
          clearTimeout(timer);
          resolve();
        };
        const timer = withinMs === undefined ? undefined : setTimeout(done, withinMs);
        listeners.add(done);
        signal.addEventListener("abort", done);
        if (signal.aborted) done();
      }),
  };
}

/** A listener that throws is a defect of its owner: the process hears of it, whoever tells goes on. */
export function callListener(listener: () => void): void {
  try {
    listener();
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}
