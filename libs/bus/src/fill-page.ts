/** Overhead of a message in a list: its tag and its length. */
const FRAME_BYTES = 6;

export type PageLimits<Message> = {
  /** Maximum number of messages. */
  readonly limit: number;
  /** Maximum size of all messages together, `pageBytes` of the call. A larger message fills a page alone. */
  readonly bytes: number;
  /** Encodes the message, for its size. */
  readonly encode: (message: Message) => Uint8Array;
};

type Page<Item, Message> = {
  readonly messages: readonly Message[];
  /** The last item that the page covers; undefined if it covers none. */
  readonly last: Item | undefined;
  readonly isMore: boolean;
};

/** Returns the number of items of one page: the requested one, at most `max`. 0 requests the maximum. */
export function computePageLimit(requested: number, max: number): number {
  return requested === 0 ? max : Math.min(requested, max);
}

/** Fills one page of a list within a limit of messages and bytes, so that every reply fits. Covers an item without a message, and omits it. */
export function fillPage<Item, Message>(
  items: Iterable<Item>,
  messageOf: (item: Item) => Message | undefined,
  { limit, bytes, encode }: PageLimits<Message>,
): Page<Item, Message> {
  const messages: Message[] = [];
  let last: Item | undefined;
  let covered = 0;
  let filled = 0;
  for (const item of items) {
    if (covered === limit) return { messages, last, isMore: true };
    const message = messageOf(item);
    if (message !== undefined) {
      filled += encode(message).length + FRAME_BYTES;
      if (filled > bytes && messages.length > 0) return { messages, last, isMore: true };
      messages.push(message);
    }
    last = item;
    covered += 1;
  }
  return { messages, last, isMore: false };
}
