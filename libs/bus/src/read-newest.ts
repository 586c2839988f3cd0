import type { Bus, StoredMessage } from "./bus.ts";

/** Messages of one stream under one subject pattern. */
export type MessageRange = { readonly stream: string; readonly subject: string };

type Newest = {
  readonly limit: number;
  /** Sequence before which the range ends; undefined: the end of the stream. */
  readonly before: number | undefined;
};

/**
 * Returns at least the `limit` newest messages of a stream if it has them, oldest first. A stream is read forward only, so reads ranges from its end, each
 * twice as long as the previous one. Stops reading a range with far too many messages, and halves it.
 */
export async function readNewest(
  bus: Pick<Bus, "readMessage" | "streamState">,
  { stream, subject }: MessageRange,
  { limit, before }: Newest,
  signal: AbortSignal,
): Promise<StoredMessage[]> {
  const { firstSequence, lastSequence } = (await bus.streamState(stream)) ?? NOTHING;
  let found: StoredMessage[] = [];
  let end = Math.min(before ?? Number.POSITIVE_INFINITY, lastSequence + 1);
  let length = limit;
  while (found.length < limit && end > firstSequence && !signal.aborted) {
    const start = Math.max(firstSequence, end - length);
    const range = await readRange(bus, { stream, subject }, { start, end, most: 2 * limit });
    if (range === "too-many") {
      length = Math.floor((end - start) / 2);
      continue;
    }
    found = [...range, ...found];
    end = start;
    length *= 2;
  }
  return found;
}

const NOTHING = { firstSequence: 1, lastSequence: 0 };

async function readRange(
  bus: Pick<Bus, "readMessage">,
  { stream, subject }: MessageRange,
  { start, end, most }: { readonly start: number; readonly end: number; readonly most: number },
): Promise<StoredMessage[] | "too-many"> {
  const messages: StoredMessage[] = [];
  for (let from = start; from < end;) {
    const message = await bus.readMessage(stream, subject, from);
    if (message === undefined || message.sequence >= end) break;
    if (messages.length === most) return "too-many";
    messages.push(message);
    from = message.sequence + 1;
  }
  return messages;
}
