/**
 * How many of the waiting decisions, from the front, go into the next entry: as many as fit. At least one, because a decision is never split; one that does not
 * fit alone was refused before it came to wait.
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
