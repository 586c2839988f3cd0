/** The state of a feed. `stale`: the feed shows its last data, which may be outdated. */
export type FeedStatus = "loading" | "live" | "stale" | "forbidden" | "unauthenticated";

export type FeedState<Item> = {
  readonly items: ReadonlyMap<string, Item>;
  /** A list while it is received; it replaces `items` once it is complete. */
  readonly incoming: ReadonlyMap<string, Item> | undefined;
  readonly status: FeedStatus;
  /** The reason why the feed is not live, for people. */
  readonly detail: string;
};

export type FeedEvent<Item> =
  | { readonly kind: "reset" }
  | { readonly kind: "put"; readonly key: string; readonly item: Item }
  | { readonly kind: "deleted"; readonly key: string }
  | { readonly kind: "synced" }
  /** The connection is restored; the gateway now sends the missed events. */
  | { readonly kind: "opened" }
  | { readonly kind: "stale"; readonly detail: string }
  | { readonly kind: "refused"; readonly status: "forbidden" | "unauthenticated"; readonly detail: string };

/** A feed before its first event. */
export function emptyFeed<Item>(): FeedState<Item> {
  return { items: new Map(), incoming: undefined, status: "loading", detail: "" };
}

/** Applies events to the feed, in their order. The lists are copied once, however many events arrive. */
export function foldFeed<Item>(before: FeedState<Item>, events: readonly FeedEvent<Item>[]): FeedState<Item> {
  let { status, detail } = before;
  const isTouched = events.some(({ kind }) => kind === "put" || kind === "deleted");
  let items = isTouched ? new Map(before.items) : before.items;
  let incoming = before.incoming && new Map(before.incoming);
  const target = (): Map<string, Item> => incoming ?? (items as Map<string, Item>);
  for (const event of events) {
    switch (event.kind) {
      case "reset":
        incoming = new Map();
        break;
      case "put":
        target().set(event.key, event.item);
        break;
      case "deleted":
        target().delete(event.key);
        break;
      case "synced":
        items = incoming ?? items;
        incoming = undefined;
        [status, detail] = ["live", ""];
        break;
      case "opened":
        if (status === "stale") [status, detail] = ["live", ""];
        break;
      case "stale":
        [status, detail] = [status === "loading" ? "loading" : "stale", event.detail];
        break;
      case "refused":
        [status, detail] = [event.status, event.detail];
        break;
    }
  }
  return { items, incoming, status, detail };
}

/** Returns whether the lists are current as far as the user may read them: an empty list is then truly empty. */
export function areCurrent(feeds: readonly Pick<FeedState<unknown>, "status">[]): boolean {
  return feeds.every(({ status }) => status === "live" || status === "forbidden");
}
