import type { LeasePhase } from "./lease.ts";

/** The resources and dependencies of a workload, read from its data. */
export type LeaseClaim = {
  readonly units: ResourceUnits;
  /** Name of the network that this workload creates; undefined for other types. */
  readonly network: string | undefined;
  /** Required leases of the same user: networks by name, volumes by lease id. */
  readonly needs: { readonly networks: readonly string[]; readonly volumes: readonly string[] };
};

export type ClaimProblem = { readonly field: string; readonly reason: string };

export type ReadResult<Value> =
  | { readonly ok: true; readonly value: Value }
  /** At least one problem. */
  | { readonly ok: false; readonly problems: readonly ClaimProblem[] };

/** Joins all problems in one line. */
export function describeProblems(problems: readonly ClaimProblem[]): string {
  return problems.map(({ field, reason }) => `${field} ${reason}`).join("; ");
}

/** Resources of a workload: processors as a count, the rest in bytes. They are bigint, so that sums stay exact. */
export type ResourceUnits = {
  readonly cru: bigint;
  readonly mru: bigint;
  readonly hru: bigint;
  readonly sru: bigint;
};

export const MIB = 2n ** 20n;
export const GIB = 2n ** 30n;

export const NO_UNITS: ResourceUnits = { cru: 0n, mru: 0n, hru: 0n, sru: 0n };

export function addUnits(a: ResourceUnits, b: ResourceUnits): ResourceUnits {
  return { cru: a.cru + b.cru, mru: a.mru + b.mru, hru: a.hru + b.hru, sru: a.sru + b.sru };
}

export function subtractUnits(a: ResourceUnits, b: ResourceUnits): ResourceUnits {
  return { cru: a.cru - b.cru, mru: a.mru - b.mru, hru: a.hru - b.hru, sru: a.sru - b.sru };
}

export type DiskType = "ssd" | "hdd";

/** Disk space, counted as SRU or HRU. */
export function computeDiskUnits(type: DiskType, bytes: bigint): ResourceUnits {
  return type === "ssd" ? { ...NO_UNITS, sru: bytes } : { ...NO_UNITS, hru: bytes };
}

/** Total capacity; a unit that is missing is unlimited. */
export type EngineCapacity = { readonly [Unit in keyof ResourceUnits]?: bigint };

/** The fields of another lease of the same user that a decision needs. */
export type NeighbourLease = {
  readonly id: string;
  readonly type: string;
  readonly phase: LeasePhase;
  /** Name of the network that the lease creates; undefined for other types. */
  readonly network: string | undefined;
  /** Name of the network to which the lease belongs. */
  readonly within: string | undefined;
};

/** The fields of a referenced lease that decide whether it may be taken over. */
export type ReferencedLease =
  | {
      readonly kind: "lease";
      readonly id: string;
      readonly type: string;
      readonly phase: LeasePhase;
      readonly expiresAtNs: bigint;
      /** Both leases belong to one user. */
      readonly isOfUser: boolean;
      readonly isOfEngine: boolean;
      /** Both orders have equal data. */
      readonly isSame: boolean;
      readonly heir: string | undefined;
    }
  /** The record of the lease cannot be read. */
  | { readonly kind: "unreadable"; readonly id: string };

/** All facts around a lease on which decisions about it depend. */
export type ClaimSurroundings = {
  /** Resources that other leases hold or may hold. */
  readonly held: ResourceUnits;
  readonly capacity: EngineCapacity;
  /** Resources of each lease of this type beyond the resources in its order. */
  readonly overhead: ResourceUnits;
  /** The leases that the order needs, by id or network, and networks with the order's own name: at most one per name and phase. */
  readonly named: readonly NeighbourLease[];
  /** Leases that use the lease or may mount it: some ids, and the total number. */
  readonly users: { readonly some: readonly string[]; readonly count: number };
};
