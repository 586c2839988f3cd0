/** Each list of further pools of a list of needs once, and for each need its place among them, from 1; 0: it has none. Messages carry them in this form. */
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
