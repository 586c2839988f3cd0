import { streams, type AnyMessageType, type MessageOf, type PropertiesOf } from "@muster/proto";
import type { Bus } from "./bus.ts";
import { publishEvent } from "./events.ts";
import { tryDecode } from "./messages.ts";
import { readNewest } from "./read-newest.ts";

/** A trail of changes on the audit stream, each about an item with an id: only age and size remove entries. */
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
      const range = { stream: streams.audit.name, subject: subjectOf(key) };
      const found = await readNewest(bus, range, { limit: limit + 1, before }, signal);
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
