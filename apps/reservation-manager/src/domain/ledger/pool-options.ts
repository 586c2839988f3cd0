import type { Need } from "./reservation.ts";

/**
 * The needs with one pool each, in order of preference: one list for each choice of pools. Needs that accept the same pools in the same order get the same one,
 * and the needs that come first decide first. A list without other pools is its only option.
 */
export function optionsOf(needs: readonly Need[]): readonly (readonly Need[])[] {
  if (!needs.some(hasOtherPools)) return [needs];
  const known = knownOptions.get(needs) ?? buildOptions(needs);
  knownOptions.set(needs, known);
  return known;
}

/** Lists that are equal are one object in the ledger, and so are their options. */
const knownOptions = new WeakMap<readonly Need[], readonly (readonly Need[])[]>();

/** How many options the needs have, whether or not they are too many to be listed. */
export function countOptions(needs: readonly Need[]): number {
  return [...listsOf(needs).values()].reduce((product, pools) => product * pools.length, 1);
}

/** All pools that a need accepts, in order of preference. */
export function acceptedPools({ pool, otherPools = [] }: Pick<Need, "pool" | "otherPools">): readonly string[] {
  return [pool, ...otherPools];
}

export function hasOtherPools({ otherPools }: Need): boolean {
  return otherPools !== undefined;
}

function buildOptions(needs: readonly Need[]): readonly (readonly Need[])[] {
  let choices: readonly ReadonlyMap<string, string>[] = [new Map()];
  for (const [key, pools] of listsOf(needs))
    choices = choices.flatMap((choice) => pools.map((pool) => new Map([...choice, [key, pool]])));
  return choices.map((choice) =>
    needs.map(({ otherPools, ...need }): Need => {
      return otherPools === undefined
        ? need
        : { ...need, pool: choice.get(keyOf({ ...need, otherPools })) ?? need.pool };
    }),
  );
}

/** The different lists of pools, in the order of the needs. */
function listsOf(needs: readonly Need[]): ReadonlyMap<string, readonly string[]> {
  return new Map(needs.filter(hasOtherPools).map((need) => [keyOf(need), acceptedPools(need)]));
}

/** No name of a pool has a space. */
function keyOf(need: Need): string {
  return acceptedPools(need).join(" ");
}
