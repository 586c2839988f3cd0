/** Runs the work for each item, in their order, with a limit in flight. Failed work is reported, and the rest continues. */
export async function forEachSome<Item>(
  items: readonly Item[],
  atOnce: number,
  work: (item: Item) => Promise<unknown>,
  failed: (item: Item, error: unknown) => void,
): Promise<void> {
  const left = items.values();
  const lane = async (): Promise<void> => {
    for (const item of left) await work(item).catch((error: unknown) => failed(item, error));
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, lane));
}
