import type { Bucket, Entry } from "./bucket.ts";

/** A bucket (or a part of it) held in memory and kept current: what decisions read. */
export type View<Value> = AsyncDisposable & {
  get(key: string): Entry<Value> | undefined;
  entries(): readonly Entry<Value>[];
  /** Called after each change of the view with the key that changed. Returns the way to stop. */
  onChange(listener: (key: string) => void): () => void;
  /** Milliseconds since the view was last known to be current: 0 while the watch is alive, growing while it is not. */
  ageMs(): number;
};

/** Resolves once the view has caught up. Follows the bucket until disposed, across reconnects. */
export function openView<Value>(
  bucket: Bucket<Value, never> | Bucket<Value>,
  options?: { readonly filter?: string; readonly now?: () => number },
): Promise<View<Value>> {
  void bucket;
  void options;
  throw new Error("pending");
}
