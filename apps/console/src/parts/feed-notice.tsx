import type { ReactNode } from "react";
import type { NamedFeed } from "./use-work.ts";

/** Shows which lists are not current, and why; empty while all lists are current. A temporary notice overlays the page, so that the page does not move. */
export function FeedNotice({ feeds }: { readonly feeds: readonly NamedFeed[] }): ReactNode {
  const of = (status: string): readonly NamedFeed[] => feeds.filter(({ feed }) => feed.status === status);
  const [stale, forbidden, loading] = [of("stale"), of("forbidden"), of("loading")];
  const names = (each: readonly NamedFeed[]): string => each.map(({ name }) => name).join(", ");
  return (
    <>
      <div role="status">
        {forbidden.length > 0 && (
          <p className="notice">
            <strong>Not shown:</strong> {names(forbidden)}. You have no right to list them.
          </p>
        )}
      </div>
      <div role="status" className="over-page">
        {stale.length > 0 && (
          <p className="notice warn">
            <strong>Stale:</strong> {names(stale)}: {stale[0]?.feed.detail}. The page continues by itself.
          </p>
        )}
        {loading.length > 0 && (
          <p className="notice quiet">
            Loading {names(loading)}
            {loading[0]?.feed.detail ? `: ${loading[0].feed.detail}` : "…"}
          </p>
        )}
      </div>
    </>
  );
}
