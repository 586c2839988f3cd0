import { listPoolOptions, type Amounts, type NodeSelection } from "@muster/resources";
import type { Demand } from "./demand.ts";
import { mayAccept } from "./may-accept.ts";
import type { Owner } from "@muster/names";
import type { PoolPolicy } from "./pool.ts";

/** A waiting reservation of the ledger: it gets machines for all of its needs, or for none. */
export type WaitingReservation = {
  readonly owner: Owner;
  readonly createdAtMs: number;
  readonly needs: readonly Need[];
  /** The label whose value must be equal on all machines of the reservation. Absent without a restriction. */
  readonly topology?: string;
};

/** A need without `shared` is for a whole machine; one without `selection` accepts each node without taints. */
type Need = {
  readonly component: string;
  readonly pool: string;
  /** Further acceptable pools, in order of preference. Needs that accept the same pools are granted in one of them. */
  readonly otherPools?: readonly string[];
  readonly shared?: Amounts;
  readonly selection?: NodeSelection;
};

/** Returns the name of the group of a reservation's demands. */
export function buildDemandGroup({ kind, id }: Owner): string {
  return `${kind}/${id}`;
}

/**
 * Builds one demand for each need, and for each choice of pools if the needs accept several.
 *
 * A need of a whole machine requests no GPUs, so its nodes are of the pool's first type, or of others with as many GPUs. A need of a part may use a node of any
 * type that is large enough. Needs that new nodes of their pool cannot meet are demands too, so that their wait is explained. A reservation with a need for an
 * unscaled pool has no demands if that need accepts no node.
 */
export function buildDemands(
  reservations: readonly WaitingReservation[],
  policies: ReadonlyMap<string, PoolPolicy>,
): Demand[] {
  const isPossible = ({ needs }: WithOption): boolean =>
    needs.every(({ pool, selection }) => policies.has(pool) || mayAccept(selection, NOTHING_KNOWN));
  const options = reservations.flatMap(listOptions).filter(isPossible);
  return options.flatMap(({ owner, createdAtMs, needs, topology, option }) =>
    needs.map(({ component, pool, shared, selection }) => {
      const policy = policies.get(pool);
      const types = policy?.instanceTypes ?? [];
      const gpus = types[0]?.gpus ?? 0;
      return {
        name: `${buildDemandGroup(owner)}/${component}`,
        group: buildDemandGroup(owner),
        pool,
        ...(option !== undefined && { option }),
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

type WithOption = WaitingReservation & { readonly option?: number };

function listOptions(reservation: WaitingReservation): readonly WithOption[] {
  const options = listPoolOptions(reservation.needs);
  if (options.length === 1) return [reservation];
  return options.map((needs, option) => ({ ...reservation, needs, option }));
}

const NOTHING_KNOWN = { labels: {}, taints: [], zones: undefined };
