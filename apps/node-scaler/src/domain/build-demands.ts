import type { Demand } from "./demand.ts";
import type { Owner } from "@muster/names";
import type { PoolPolicy } from "./pool.ts";

/** A waiting reservation of the ledger: it gets machines for all of its needs, or for none. */
export type WaitingReservation = {
  readonly owner: Owner;
  readonly createdAtMs: number;
  readonly needs: readonly { readonly component: string; readonly pool: string }[];
};

/** Name of the group of a reservation's demands. */
export function groupOf({ kind, id }: Owner): string {
  return `${kind}/${id}`;
}

/** One demand a need. A need says nothing of GPUs, so that nodes are of the pool's first type, and of others with as many. */
export function buildDemands(
  reservations: readonly WaitingReservation[],
  policies: ReadonlyMap<string, PoolPolicy>,
): Demand[] {
  return reservations.flatMap(({ owner, createdAtMs, needs }) =>
    needs.map(({ component, pool }) => {
      const policy = policies.get(pool);
      const types = policy?.instanceTypes ?? [];
      const gpus = types[0]?.gpus ?? 0;
      return {
        name: `${groupOf(owner)}/${component}`,
        group: groupOf(owner),
        pool,
        createdAtMs,
        instanceTypes: types.filter((type) => type.gpus === gpus).map(({ name }) => name),
        spot: policy?.spot ?? "Never",
        zone: undefined,
        gpus,
        volumeGib: undefined,
        privateIpOnly: policy?.privateIpOnly ?? false,
      };
    }),
  );
}
