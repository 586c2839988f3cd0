/** Listeners to changes without content: each reads the new state. */
type Listeners = {
  notify(): void;
  /** Adds a listener; returns the function that removes it. */
  onChange(listener: () => void): () => void;
  /** Resolves at the next change, after the time, or when the signal is aborted. */
  changed(signal: AbortSignal, withinMs?: number): Promise<void>;
};

export function openListeners(): Listeners {
  const listeners = new Set<() => void>();
  return {
    notify: () => {
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

/** Calls a listener. If it throws, that is a defect of its owner: the error becomes an uncaught exception, and the notifier continues. */
export function callListener(listener: () => void): void {
  try {
    listener();
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}
