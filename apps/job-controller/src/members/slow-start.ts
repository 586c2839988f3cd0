/** The maximum of requests in flight for one job and one kind of member. */
export const MAX_IN_FLIGHT = 16;

export type Continuation = "go-on" | "stop";

/**
 * Works in batches of 1, 2, 4, ... items, so that a failure of all items (a quota, an admission rule) occurs once and not a thousand times. Starts no further
 * item after one returns "stop" or the signal is aborted, and returns the unstarted items. Throws the error of an item after all started items have ended.
 */
export async function runWithSlowStart<Item>(
  items: readonly Item[],
  work: (item: Item) => Promise<Continuation>,
  signal?: AbortSignal,
): Promise<readonly Item[]> {
  let from = 0;
  let going: Continuation = "go-on";
  for (let size = 1; from < items.length && going === "go-on"; size *= 2) {
    const batch = await runInOrder(items.slice(from, from + size), work, signal);
    from += batch.begun;
    going = batch.going;
  }
  return items.slice(from);
}

/** Starts the items in order, MAX_IN_FLIGHT concurrently. `begun` counts the started items. */
export async function runInOrder<Item>(
  items: readonly Item[],
  work: (item: Item) => Promise<Continuation>,
  signal?: AbortSignal,
): Promise<{ readonly begun: number; readonly going: Continuation }> {
  let begun = 0;
  let going: Continuation = "go-on";
  const rest = items[Symbol.iterator]();
  const lane = async (): Promise<void> => {
    while (going === "go-on") {
      const next = signal?.aborted === true ? undefined : rest.next();
      if (next === undefined) going = "stop";
      else if (next.done === true) return;
      else {
        begun += 1;
        if ((await work(next.value)) === "stop") going = "stop";
      }
    }
  };
  const lanes = Array.from({ length: Math.min(MAX_IN_FLIGHT, items.length) }, () =>
    lane().catch((error: unknown) => {
      going = "stop";
      throw error;
    }),
  );
  const ended = await Promise.allSettled(lanes);
  for (const lane of ended) if (lane.status === "rejected") throw lane.reason;
  return { begun, going };
}
