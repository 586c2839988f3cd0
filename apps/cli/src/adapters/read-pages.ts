/** Duration of a long poll. It is short, because a caller waits until its deadline for the reply of a service that died. */
export const LONG_POLL_MS = 4000;
export const LONG_POLL_TIMEOUT_MS = 6000;
/** Timeout of a call. It exceeds a change of leader and a restart, so a call survives both. */
export const CALL_TIMEOUT_MS = 15_000;
/** Time limit of calls that only check whether a service answers. */
export const STATUS_TIMEOUT_MS = 2000;
/** Maximum pages of a list; each has at most 500 items. */
const MAX_PAGES = 200;

/** Reads every page of a list, and returns the items of one field of each reply. */
export async function readPages<Name extends string, Message, Item>(
  read: (page: {
    readonly continue: string;
  }) => Promise<{ readonly continue: string } & Readonly<Record<Name, readonly Message[]>>>,
  name: Name,
  convert: (message: Message) => Item,
): Promise<Item[]> {
  const all: Item[] = [];
  let page = "";
  for (let count = 0; count < MAX_PAGES; count++) {
    const reply = await read({ continue: page });
    all.push(...reply[name].map((message) => convert(message)));
    if (reply.continue === "") break;
    page = reply.continue;
  }
  return all;
}
