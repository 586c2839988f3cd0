/** Maximum share of one user in the bytes of all lists. */
const USER_SHARE = 2 / 3;

export type FeedRoom =
  | { readonly kind: "fits" }
  /** `of` states whose limit the list exceeds. */
  | { readonly kind: "refused"; readonly of: "user" | "all"; readonly limitBytes: number };

/**
 * Decides whether a list of this size may be followed. `totalBytes` are the bytes of all lists. `readerBytes` has, for each user who watches this list, the
 * bytes of all lists that the user watches. The list stays for all its users while one of them is within the share.
 */
export function decideFeedRoom(
  { totalBytes, readerBytes }: { readonly totalBytes: number; readonly readerBytes: readonly number[] },
  maxBytes: number,
): FeedRoom {
  const maxUserBytes = Math.floor(maxBytes * USER_SHARE);
  if (readerBytes.length > 0 && Math.min(...readerBytes) > maxUserBytes)
    return { kind: "refused", of: "user", limitBytes: maxUserBytes };
  return totalBytes > maxBytes ? { kind: "refused", of: "all", limitBytes: maxBytes } : { kind: "fits" };
}
