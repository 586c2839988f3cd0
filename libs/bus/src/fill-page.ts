/** Bytes beside a message in a list: its tag and its length. */
const FRAME_BYTES = 6;

export type PageLimits<Message> = {
  /** Messages. */
  readonly limit: number;
  /** The maximum size of all messages together, `pageBytes` of the call. A larger message makes a page of its own. */
  readonly bytes: number;
  /** The message as it is sent, for its size. */
  readonly encode: (message: Message) => Uint8Array;
};

type Page<Item, Message> = {
  readonly messages: readonly Message[];
  /** The last item that the page covers; undefined when it covers none. */
  readonly last: Item | undefined;
  readonly isMore: boolean;
};

/**
 * Fills one page of a list, bounded in number and in bytes, so that no list grows beyond what one reply may carry. An item that has no message is covered and
 * left out.
 */
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
