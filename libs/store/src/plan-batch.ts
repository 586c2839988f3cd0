/**
 * How many waiting decisions, from the front, fit into the next entry. At least one, because a decision is never split; one that exceeds an entry was refused
 * earlier.
 */
export function planBatch(sizesBytes: readonly number[], limitBytes: number): number {
  let bytes = 0;
  let count = 0;
  for (const size of sizesBytes) {
    bytes += size;
    if (count > 0 && bytes > limitBytes) break;
    count += 1;
  }
  return count;
}
