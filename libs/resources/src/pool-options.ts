/** A need that accepts machines of `pool`, and then of each of `otherPools`, in order of preference. */
type Accepting = { readonly pool: string; readonly otherPools?: readonly string[] | undefined };

/** The maximum of pools that one need accepts. */
export const MAX_ACCEPTED_POOLS = 8;

/** The maximum of options of one request: each of them has a place in the structures of the waiting queue. */
export const MAX_POOL_OPTIONS = 16;

/**
 * Lists the options of the needs: one list with a single pool per need for each choice, in order of preference. Needs that accept the same pools in the same
 * order get the same pool, and earlier needs decide first. A list without other pools is its only option.
 */
export function listPoolOptions<Need extends Accepting>(
  needs: readonly Need[],
): readonly (readonly Omit<Need, "otherPools">[])[] {
  const lists = indexPoolLists(needs);
  if (lists.size === 0) return [needs];
  let choices: readonly ReadonlyMap<string, string>[] = [new Map()];
  for (const [key, pools] of lists)
    choices = choices.flatMap((choice) => pools.map((pool) => new Map([...choice, [key, pool]])));
  return choices.map((choice) => needs.map((need) => (hasOtherPools(need) ? withPool(need, choice) : need)));
}

/** How many options the needs have, whether or not they are too many to be listed. */
export function countPoolOptions(needs: readonly Accepting[]): number {
  return [...indexPoolLists(needs).values()].reduce((product, pools) => product * pools.length, 1);
}

/** All pools that a need accepts, in order of preference. */
export function listAcceptedPools({ pool, otherPools = [] }: Accepting): readonly string[] {
  return [pool, ...otherPools];
}

export function hasOtherPools({ otherPools }: Accepting): boolean {
  return otherPools !== undefined;
}

function withPool<Need extends Accepting>(
  need: Need,
  choice: ReadonlyMap<string, string>,
): Omit<Need, "otherPools"> & Pick<Accepting, "pool"> {
  const { otherPools: _, ...rest } = need;
  return { ...rest, pool: choice.get(buildKey(need)) ?? need.pool };
}

/** The different lists of pools, in the order of the needs. */
function indexPoolLists(needs: readonly Accepting[]): ReadonlyMap<string, readonly string[]> {
  return new Map(needs.filter(hasOtherPools).map((need) => [buildKey(need), listAcceptedPools(need)]));
}

/** No name of a pool has a space. */
function buildKey(need: Accepting): string {
  return listAcceptedPools(need).join(" ");
}
