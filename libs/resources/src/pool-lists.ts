/** Indexes lists of other pools for messages: each distinct list once, and the position of each need's list from 1; 0: it has none. */
export function indexPoolLists(needs: readonly { readonly otherPools?: readonly string[] | undefined }[]): {
  readonly poolLists: readonly { readonly pools: string[] }[];
  readonly indexes: readonly number[];
} {
  const known = new Map<string, { readonly pools: readonly string[]; readonly index: number }>();
  const indexes = needs.map(({ otherPools }) => {
    if (otherPools === undefined) return 0;
    const key = JSON.stringify(otherPools);
    const { index } = known.get(key) ?? { index: known.size + 1 };
    known.set(key, { pools: otherPools, index });
    return index;
  });
  return { poolLists: [...known.values()].map(({ pools }) => ({ pools: [...pools] })), indexes };
}
