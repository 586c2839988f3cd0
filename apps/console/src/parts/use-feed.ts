import { useMemo, useSyncExternalStore } from "react";
import { feedOf, type FeedName, type Feeds } from "../adapters/feeds.ts";
import type { FeedState } from "../domain/fold-feed.ts";

/** Follows a list of the gateway while the component is shown. */
export function useFeed<Name extends FeedName>(
  name: Name,
): FeedState<Feeds[Name]> & { readonly list: readonly Feeds[Name][] } {
  const feed = feedOf(name);
  const state = useSyncExternalStore(feed.subscribe, feed.state);
  const list = useMemo(() => [...state.items.values()], [state.items]);
  return { ...state, list };
}
