import { hasOtherPools, listPoolOptions } from "@muster/resources";
import type { Need } from "./reservation.ts";

/** As `listPoolOptions`, cached by list: equal lists are mostly one object in the ledger. */
export function listNeedOptions(needs: readonly Need[]): readonly (readonly Need[])[] {
  if (!needs.some(hasOtherPools)) return [needs];
  const known = knownOptions.get(needs) ?? listPoolOptions(needs);
  knownOptions.set(needs, known);
  return known;
}

const knownOptions = new WeakMap<readonly Need[], readonly (readonly Need[])[]>();
