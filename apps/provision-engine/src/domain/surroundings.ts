import type { Phase } from "./lease.ts";
import type { ResourceUnits } from "./claim.ts";

/** Total capacity; a unit that is missing is unlimited. */
export type Capacity = { readonly [Unit in keyof ResourceUnits]?: bigint };

/** The fields of another lease of the same user that a decision needs. */
export type Neighbour = {
  readonly id: string;
  readonly type: string;
  readonly phase: Phase;
  /** Name of the network that it creates; undefined for other types. */
  readonly network: string | undefined;
  /** Name of the network that it belongs to. */
  readonly within: string | undefined;
};

/** The fields of a referenced lease that decide whether it may be taken over. */
export type Referenced =
  | {
      readonly kind: "lease";
      readonly id: string;
      readonly type: string;
      readonly phase: Phase;
      readonly expiresAtNs: bigint;
      /** Both leases belong to one user. */
      readonly isOfUser: boolean;
      readonly isOfEngine: boolean;
      /** Both orders have equal data. */
      readonly isSame: boolean;
      readonly heir: string | undefined;
    }
  /** Its record cannot be read. */
  | { readonly kind: "unreadable"; readonly id: string };

/** Everything around a lease that decisions about it depend on. */
export type Surroundings = {
  /** Resources that other leases hold or may hold. */
  readonly held: ResourceUnits;
  readonly capacity: Capacity;
  /** Resources of each lease of its type beyond those in its order. */
  readonly overhead: ResourceUnits;
  /** The leases that its order needs, by id or network, and networks of its own name: at most one per name and phase. */
  readonly named: readonly Neighbour[];
  /** Leases that use it or may mount it: some ids, and the total number. */
  readonly users: { readonly some: readonly string[]; readonly count: number };
};
