/** Resources of a slice of the cluster. */
type KubernetesSize = {
  readonly processors: number;
  readonly memoryGib: number;
  readonly ssdGib: number;
};

/** Resources by size, starting at 1. */
const SIZES: readonly (readonly [processors: number, memoryGib: number, ssdGib: number])[] = [
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

/** Throws RangeError for an invalid size. */
export function findKubernetesSize(size: number): KubernetesSize {
  const found = SIZES[size - 1];
  if (found === undefined) throw new RangeError(`only size 1 to ${KUBERNETES_SIZES}: ${size}`);
  const [processors, memoryGib, ssdGib] = found;
  return { processors, memoryGib, ssdGib };
}
