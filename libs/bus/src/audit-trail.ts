import { streams, type AnyMessageType, type MessageOf, type PropertiesOf } from "@muster/proto";
import type { Bus } from "./bus.ts";
import { publishEvent } from "./events.ts";
import { tryDecode } from "./messages.ts";
import { readNewest } from "./read-newest.ts";

/** A trail of changes on the audit stream, each about an item with an id: only age and size remove entries. */
export type AuditTrail<Item> = {
  /** Appends missing items; the stream drops an item whose id it received within its duplicate window. */
  publish(items: readonly Item[]): Promise<void>;
  /** The newest items of one object, or those before a page: oldest first, each once. The cost depends on the limit, not on the length of the history. */
  page(key: string, query: TrailQuery, signal: AbortSignal): Promise<TrailPage<Item>>;
};

type TrailQuery = { readonly limit: number; readonly before: number | undefined };

type TrailPage<Item> = {
  readonly items: readonly Item[];
  /** Start of this page; the query for the next page passes it as `before`. Undefined: no older items exist. */
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

/** Opens the history of one kind of object. The audit stream must exist. */
export function openAuditTrail<Type extends AnyMessageType, Item>(
  bus: Bus,
  { type, subjectOf, keyOf, idOf, toWire, fromWire }: TrailOptions<Type, Item>,
): AuditTrail<Item> {
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
