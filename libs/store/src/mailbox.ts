/** A queue from callbacks to one loop. Unbounded: its producer must have flow control. */
type Mailbox<Item> = {
  put(item: Item): void;
  /** After its present content, taking rejects with this error. */
  fail(error: unknown): void;
  take(): Promise<Item>;
};

export function openMailbox<Item>(): Mailbox<Item> {
  let items: Item[] = [];
  let taken = 0;
  let failure: { readonly error: unknown } | undefined;
  let wake: (() => void) | undefined;
  const ring = (): void => {
    wake?.();
    wake = undefined;
  };
  return {
    put: (item) => {
      items.push(item);
      ring();
    },
    fail: (error) => {
      failure ??= { error };
      ring();
    },
    take: async () => {
      for (;;) {
        const item = items[taken];
        if (item !== undefined) {
          taken += 1;
          // Keeps at most as many taken items as waiting ones, also if the queue never becomes empty.
          if (taken * 2 >= items.length) {
            items = items.slice(taken);
            taken = 0;
          }
          return item;
        }
        if (failure !== undefined) throw failure.error;
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    },
  };
}
