import type { Amounts, NodeSelection } from "@muster/resources";
import type { Demand } from "./demand.ts";
import { mayAccept } from "./may-accept.ts";
import type { Owner } from "@muster/names";
import type { PoolPolicy } from "./pool.ts";

/** A waiting reservation of the ledger: it gets machines for all of its needs, or for none. */
export type WaitingReservation = {
  readonly owner: Owner;
  readonly createdAtMs: number;
  readonly needs: readonly Need[];
  /** All of its machines have the same value of this label. Absent: they may be anywhere. */
  readonly topology?: string;
};

/** A need without `shared` is one of a whole machine, and one without `selection` accepts each node without taints. */
type Need = {
  readonly component: string;
  readonly pool: string;
  readonly shared?: Amounts;
  readonly selection?: NodeSelection;
};

/** Name of the group of a reservation's demands. */
export function groupOf({ kind, id }: Owner): string {
  return `${kind}/${id}`;
}

/**
 * One demand for each need. A need of a whole machine says nothing of GPUs, so that nodes are of the pool's first type, and of others with as many. One of a
 * part may get a node of any type that is large enough. Needs that new nodes of their pool contradict are demands, too, so that their wait is explained. None
 * for a reservation with a need for a pool that is not scaled, if it accepts no node at all.
 */
export function buildDemands(
  reservations: readonly WaitingReservation[],
  policies: ReadonlyMap<string, PoolPolicy>,
): Demand[] {
  const isPossible = ({ needs }: WaitingReservation): boolean =>
    needs.every(({ pool, selection }) => policies.has(pool) || mayAccept(selection, NOTHING_KNOWN));
  return reservations.filter(isPossible).flatMap(({ owner, createdAtMs, needs, topology }) =>
    needs.map(({ component, pool, shared, selection }) => {
      const policy = policies.get(pool);
      const types = policy?.instanceTypes ?? [];
      const gpus = types[0]?.gpus ?? 0;
      return {
        name: `${groupOf(owner)}/${component}`,
        group: groupOf(owner),
        pool,
        createdAtMs,
        instanceTypes: types.filter((type) => shared !== undefined || type.gpus === gpus).map(({ name }) => name),
        spot: policy?.spot ?? "Never",
        zone: undefined,
        gpus,
        volumeGib: undefined,
        privateIpOnly: policy?.privateIpOnly ?? false,
        ...(shared !== undefined && { shared }),
        ...(selection !== undefined && { selection }),
        ...(topology !== undefined && { topology: { key: topology } }),
      };
    }),
  );
}

const NOTHING_KNOWN = { labels: {}, taints: [], zones: undefined };
