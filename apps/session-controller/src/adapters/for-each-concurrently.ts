/** Runs the work for all items with limited concurrency, and returns the results in the order of the items. Rejects with the first error. */
export async function forEachConcurrently<Item, Result>(
  count: number,
  items: readonly Item[],
  work: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results = new Map<number, Result>();
  const queue = items.entries();
  const lane = async (): Promise<void> => {
    for (const [index, item] of queue) results.set(index, await work(item));
  };
  await Promise.all(Array.from({ length: Math.min(count, items.length) }, lane));
  return [...results.entries()].sort(([a], [b]) => a - b).map(([, result]) => result);
}
