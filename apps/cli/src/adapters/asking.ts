/** Short, because an answer that dies with its service is waited for until the deadline. */
export const LONG_POLL_MS = 4000;
export const LONG_POLL_TIMEOUT_MS = 6000;
/** Longer than a change of leader or a restart takes, so that those pass unnoticed. */
export const CALL_TIMEOUT_MS = 15_000;
/** For whoever asks whether a service is there: somebody waits, and "not now" is an answer. */
export const STATUS_TIMEOUT_MS = 2000;
/** Pages of a list that are read; each has at most 500. */
const PAGES_MAX = 200;

/** All items of a list that comes in pages. */
export async function readPages<Item>(
  read: (page: string) => Promise<{ readonly items: readonly Item[]; readonly next: string }>,
): Promise<Item[]> {
  const all: Item[] = [];
  let page = "";
  for (let count = 0; count < PAGES_MAX; count++) {
    const { items, next } = await read(page);
    all.push(...items);
    if (next === "") break;
    page = next;
  }
  return all;
}
