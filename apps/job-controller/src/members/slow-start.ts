/** Requests on their way at once for one job and one kind of member. */
export const IN_FLIGHT_MAX = 16;

export type Going = "go-on" | "stop";

/**
 * Does work in batches of 1, 2, 4, ... items, so that what fails for one because it fails for all (a quota, an admission rule) is asked for once and not a thousand
 * times. Begins nothing more once an item says "stop" or the signal is aborted, and returns what was not begun. An error of one item is thrown after
 * everything that was begun has ended.
 */
export async function slowStart<Item>(
  items: readonly Item[],
  work: (item: Item) => Promise<Going>,
  signal?: AbortSignal,
): Promise<readonly Item[]> {
  let from = 0;
  let going: Going = "go-on";
  for (let size = 1; from < items.length && going === "go-on"; size *= 2) {
    const batch = await inOrder(items.slice(from, from + size), work, signal);
    from += batch.begun;
    going = batch.going;
  }
  return items.slice(from);
}

/** Begins the items in order, IN_FLIGHT_MAX at a time. `begun` counts them from the first. */
export async function inOrder<Item>(
  items: readonly Item[],
  work: (item: Item) => Promise<Going>,
  signal?: AbortSignal,
): Promise<{ readonly begun: number; readonly going: Going }> {
  let begun = 0;
  let going: Going = "go-on";
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
  const lanes = Array.from({ length: Math.min(IN_FLIGHT_MAX, items.length) }, () =>
    lane().catch((error: unknown) => {
      going = "stop";
      throw error;
    }),
  );
  const ended = await Promise.allSettled(lanes);
  for (const lane of ended) if (lane.status === "rejected") throw lane.reason;
  return { begun, going };
}
