/** Short, because a caller waits until its deadline for the reply of a service that died. */
export const LONG_POLL_MS = 4000;
export const LONG_POLL_TIMEOUT_MS = 6000;
/** Longer than a change of leader or a restart takes. */
export const CALL_TIMEOUT_MS = 15_000;
/** Time limit of calls that only check whether a service answers. */
export const STATUS_TIMEOUT_MS = 2000;
/** Pages of a list; each has at most 500 items. */
const MAX_PAGES = 200;

/** All items of a list that comes in pages. */
export async function readPages<Item>(
  read: (page: string) => Promise<{ readonly items: readonly Item[]; readonly next: string }>,
): Promise<Item[]> {
  const all: Item[] = [];
  let page = "";
  for (let count = 0; count < MAX_PAGES; count++) {
    const { items, next } = await read(page);
    all.push(...items);
    if (next === "") break;
    page = next;
  }
  return all;
}
