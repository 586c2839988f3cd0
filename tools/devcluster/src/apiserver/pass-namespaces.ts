export type NamespacePasses = Disposable & {
  /** Something in this namespace has changed: it is looked at soon, once for all that changes until then. */
  note(namespace: string): void;
};

/** Looks at namespaces that have changed. What one pass throws goes to `onDefect`, and the next one comes all the same. */
export function passNamespaces(look: (namespace: string) => void, onDefect: (error: unknown) => void): NamespacePasses {
  const changed = new Set<string>();
  let scheduled: NodeJS.Timeout | undefined;
  let pauseMs = 0;
  const pass = (): void => {
    scheduled = undefined;
    const startMs = performance.now();
    const namespaces = [...changed];
    changed.clear();
    try {
      for (const namespace of namespaces) look(namespace);
    } catch (error) {
      onDefect(error);
    }
    // With thousands of pods that change, requests get at least as much of the time.
    pauseMs = performance.now() - startMs;
  };
  return {
    note: (namespace) => {
      changed.add(namespace);
      scheduled ??= setTimeout(pass, pauseMs);
    },
    [Symbol.dispose]: () => clearTimeout(scheduled),
  };
}
