export type NamespacePasses = Disposable & {
  /** Records a change of a namespace; one pass follows soon for all changes until then. */
  note(namespace: string): void;
};

/** Runs passes over changed namespaces. A pass that throws reports to `onDefect`, and later passes still run. */
export function passNamespaces(run: (namespace: string) => void, onDefect: (error: unknown) => void): NamespacePasses {
  const changed = new Set<string>();
  let scheduled: NodeJS.Timeout | undefined;
  let pauseMs = 0;
  const pass = (): void => {
    scheduled = undefined;
    const startMs = performance.now();
    const namespaces = [...changed];
    changed.clear();
    for (const namespace of namespaces) {
      try {
        run(namespace);
      } catch (error) {
        onDefect(error);
      }
    }
    // Requests get at least as much time as passes, however many pods change.
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
