import { streams, type AnyMessageType, type MessageOf, type PropertiesOf } from "@muster/proto";
import type { Bus, StoredMessage } from "./bus.ts";
import { publishEvent } from "./events.ts";
import { tryDecode } from "./messages.ts";

/** What was done to things, each with an id of its own, on the audit stream: nothing but age and size takes from it. */
export type Trail<Item> = {
  /** Appends missing items; the stream drops an item whose id it has had within its window. */
  publish(items: readonly Item[]): Promise<void>;
  /**
   * The newest of one thing, or of those before a page: the oldest of them first, each once. What it costs goes by the limit, not by the length of the trail.
   */
  page(key: string, query: TrailQuery, signal: AbortSignal): Promise<TrailPage<Item>>;
};

type TrailQuery = { readonly limit: number; readonly before: number | undefined };

type TrailPage<Item> = {
  readonly items: readonly Item[];
  /** Where the next page ends; undefined: there are no older ones. */
  readonly before: number | undefined;
};

type TrailOptions<Type extends AnyMessageType, Item> = {
  readonly type: Type;
  readonly subjectOf: (key: string) => string;
  readonly keyOf: (item: Item) => string;
  readonly idOf: (item: Item) => string;
  readonly toWire: (item: Item) => PropertiesOf<Type>;
  readonly fromWire: (message: MessageOf<Type>) => Item;
};

/** The audit stream has to exist. */
export function openTrail<Type extends AnyMessageType, Item>(
  bus: Bus,
  { type, subjectOf, keyOf, idOf, toWire, fromWire }: TrailOptions<Type, Item>,
): Trail<Item> {
  return {
    publish: async (items) => {
      for (const item of items)
        await publishEvent(bus, subjectOf(keyOf(item)), type, toWire(item), { messageId: idOf(item) });
    },
    page: async (key, { limit, before }, signal) => {
      const found = await readBackward(bus, subjectOf(key), { limit: limit + 1, before }, signal);
      const newest = found.slice(-limit);
      const items = new Map(
        newest.flatMap(({ payload }): [string, Item][] => {
          const message = tryDecode(type, payload);
          if (message === undefined) return [];
          const item = fromWire(message);
          return [[idOf(item), item]];
        }),
      );
      return { items: [...items.values()], before: found.length > limit ? newest[0]?.sequence : undefined };
    },
  };
}

/**
 * The newest messages of a subject, `limit` and perhaps some more, the oldest first. A stream is read forward only, so it is read in ranges from its end,
 * each twice as long as the one before; one with far more messages than are wanted is left half-read, and halved.
 */
async function readBackward(
  bus: Bus,
  subject: string,
  { limit, before }: TrailQuery,
  signal: AbortSignal,
): Promise<StoredMessage[]> {
  const { firstSequence, lastSequence } = (await bus.streamState(streams.audit.name)) ?? NOTHING;
  let found: StoredMessage[] = [];
  let end = Math.min(before ?? Number.POSITIVE_INFINITY, lastSequence + 1);
  let length = limit;
  while (found.length < limit && end > firstSequence && !signal.aborted) {
    const start = Math.max(firstSequence, end - length);
    const range = await readRange(bus, subject, { start, end, most: 2 * limit });
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
  bus: Bus,
  subject: string,
  { start, end, most }: { readonly start: number; readonly end: number; readonly most: number },
): Promise<StoredMessage[] | "too-many"> {
  const messages: StoredMessage[] = [];
  for (let from = start; from < end;) {
    const message = await bus.readMessage(streams.audit.name, subject, from);
    if (message === undefined || message.sequence >= end) break;
    if (messages.length === most) return "too-many";
    messages.push(message);
    from = message.sequence + 1;
  }
  return messages;
}
