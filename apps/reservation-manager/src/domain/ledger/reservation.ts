import type { Owner } from "@muster/names";

/** One machine of one pool for one component or replica. */
export type Need = { readonly component: string; readonly pool: string };

/** One machine that is held. */
export type Machine = { readonly component: string; readonly pool: string; readonly node: string };

/** One entry of the ledger: it waits until it has a `grant`, and then holds one machine a need, in the order of the needs. */
export type Reservation = {
  /** Place in the order of arrival; never used twice, so `idOf` is unique for ever. */
  readonly sequence: number;
  readonly owner: Owner;
  readonly needs: readonly Need[];
  /** Higher goes first. */
  readonly priority: number;
  readonly createdAtMs: number;
  readonly grant?: { readonly atMs: number; readonly machines: readonly Machine[] };
};

/** How many machines of one pool a reservation needs. */
export type PoolNeed = { readonly pool: string; readonly count: number };

export function idOf(sequence: number): string {
  return `r-${sequence}`;
}

/** Kinds and ids are DNS labels, so the separator, which sorts before all their characters, keeps owners of one kind together. */
export function ownerKey(owner: Owner): string {
  return `${owner.kind}!${owner.id}`;
}

/** The needs by pool, in the order of the pools' names. */
export function countByPool(needs: readonly Need[]): readonly PoolNeed[] {
  const counts = new Map<string, number>();
  for (const { pool } of needs) counts.set(pool, (counts.get(pool) ?? 0) + 1);
  return [...counts].map(([pool, count]) => ({ pool, count })).sort((a, b) => (a.pool < b.pool ? -1 : 1));
}

/** True when both ask for the same machines for the same components, in whatever order. */
export function sameNeeds(a: readonly Need[], b: readonly Need[]): boolean {
  if (a.length !== b.length) return false;
  const pools = new Map(a.map((need) => [need.component, need.pool]));
  return b.every((need) => pools.get(need.component) === need.pool);
}
