/** Minimum interval, for a list that changes and whose read is fast. */
const MIN_MS = 50;
/** Pause after a read as a multiple of its duration: reading takes at most a third of the time, so that many changing lists slow down only each other. */
const REST = 2;

export type LastRead = {
  readonly changes: number;
  /** The duration of the read. */
  readonly readMs: number;
  /** The interval before the read. */
  readonly intervalMs: number;
};

/** Returns the interval after which a watched list is read again: short while the list changes, and doubled after each read without a change. */
export function decideReadInterval({ changes, readMs, intervalMs }: LastRead, maxMs: number): number {
  const soonMs = Math.max(MIN_MS, readMs * REST);
  return Math.min(maxMs, changes > 0 ? soonMs : Math.max(soonMs, intervalMs * 2));
}
