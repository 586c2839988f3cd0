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
export function diskUnits(type: DiskType, bytes: bigint): ResourceUnits {
  return type === "ssd" ? { ...NO_UNITS, sru: bytes } : { ...NO_UNITS, hru: bytes };
}
