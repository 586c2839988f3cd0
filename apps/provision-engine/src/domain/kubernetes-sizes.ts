import { GIB, type ResourceUnits } from "./resource-units.ts";

/** vCPUs, GiB of memory and GiB of SSD by size, from 1. */
const SIZES: readonly (readonly [vcpus: number, memoryGib: number, ssdGib: number])[] = [
  [1, 2, 50],
  [2, 4, 100],
  [2, 8, 25],
  [2, 8, 50],
  [2, 8, 200],
  [4, 16, 50],
  [4, 16, 100],
  [4, 16, 400],
  [8, 32, 100],
  [8, 32, 200],
  [8, 32, 800],
  [1, 64, 200],
  [1, 64, 400],
  [1, 64, 800],
  [1, 2, 25],
  [2, 4, 50],
  [4, 8, 50],
  [1, 1, 25],
];

export const KUBERNETES_SIZES = SIZES.length;

/** What a slice of this size takes. Throws RangeError for a size that the data of a lease cannot have. */
export function kubernetesUnits(size: number): ResourceUnits {
  const found = SIZES[size - 1];
  if (found === undefined) throw new RangeError(`only size 1 to ${KUBERNETES_SIZES}: ${size}`);
  const [vcpus, memoryGib, ssdGib] = found;
  return { cru: BigInt(vcpus), mru: BigInt(memoryGib) * GIB, hru: 0n, sru: BigInt(ssdGib) * GIB };
}
