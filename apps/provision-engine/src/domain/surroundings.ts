import type { Phase } from "./lease.ts";
import { NO_UNITS, type ResourceUnits } from "./resource-units.ts";

/** What there is to give; a unit without a number has no limit. */
export type Capacity = { readonly [Unit in keyof ResourceUnits]?: bigint };

/** Another lease of the same user, as far as a decision needs it. */
export type Neighbour = {
  readonly id: string;
  readonly type: string;
  readonly phase: Phase;
  /** Name of the network that it is; undefined: it is none. */
  readonly network: string | undefined;
  /** Name of the network that it lives in. */
  readonly within: string | undefined;
};

/** The lease that an order refers to, as far as whether it may be taken over depends on it. */
export type Referenced =
  | {
      readonly kind: "lease";
      readonly id: string;
      readonly type: string;
      readonly phase: Phase;
      readonly expiresAtNs: bigint;
      /** Both are of one user. */
      readonly isOfUser: boolean;
      readonly isOfEngine: boolean;
      /** Both orders ask for the same. */
      readonly isSame: boolean;
      readonly heir: string | undefined;
    }
  /** Its record is none that can be read. */
  | { readonly kind: "unreadable"; readonly id: string };

/** What there is beside a lease: what is decided of it goes by this alone, whatever else its user has. */
export type Surroundings = {
  /** What is taken or may be, without the lease itself. */
  readonly held: ResourceUnits;
  readonly capacity: Capacity;
  /** What one of its type takes beside what its order says. */
  readonly overhead: ResourceUnits;
  /** Those that its order needs, by id or by network, and the networks of its own name: of a name and a phase no more than one. */
  readonly named: readonly Neighbour[];
  /** Those that live in it or may mount it: ids of some of them, and how many there are. */
  readonly users: { readonly some: readonly string[]; readonly count: number };
};

export const ALONE: Omit<Surroundings, "held" | "capacity"> = {
  overhead: NO_UNITS,
  named: [],
  users: { some: [], count: 0 },
};
