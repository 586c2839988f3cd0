import type { KubeObject, ListWatch } from "./list-watch.ts";

/** A cache of one resource that follows the API server for ever, and an honest word about how fresh it is. */
export type Informer<Kept> = AsyncDisposable & {
  /** Resolves once the first list is complete. */
  readonly synced: Promise<void>;
  get(key: string): Kept | undefined;
  list(): readonly Kept[];
  /** `before` is undefined for an addition, `after` for a deletion; called in order per object. Returns the way to stop. */
  onChange(
    listener: (change: {
      readonly key: string;
      readonly before: Kept | undefined;
      readonly after: Kept | undefined;
    }) => void,
  ): () => void;
  /** Milliseconds since the API server last said anything (an event, a bookmark, a list). */
  ageMs(): number;
};

export type InformerOptions<Object extends KubeObject, Kept> = {
  readonly source: ListWatch<Object>;
  /** What the cache keeps of an object; everything else is dropped at once. */
  readonly project: (object: Object) => Kept;
  /** Objects a page; default 500. */
  readonly pageSize?: number;
  /** Full list again this often, whatever the watch says; default 10 minutes. */
  readonly relistEveryMs?: number;
  /** Told about every failure; the informer goes on by itself. */
  readonly onError?: (error: unknown, retryInMs: number) => void;
  readonly now?: () => number;
};

/** Starts following. Never stops by itself: ends and errors of any kind lead to a new watch or a new list, with back-off. Keys are `namespace/name` or `name`. */
export function informer<Object extends KubeObject, Kept>(options: InformerOptions<Object, Kept>): Informer<Kept> {
  void options;
  throw new Error("pending");
}
