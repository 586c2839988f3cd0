/** The interval for a list that changes, if a read is fast. */
const MIN_MS = 50;
/** Reading takes at most a third of the time, so that many changing lists slow down only each other. */
const REST = 2;

export type LastRead = {
  readonly changes: number;
  /** The duration of the read. */
  readonly readMs: number;
  /** The interval before the read. */
  readonly intervalMs: number;
};

/** Decides when a watched list is read again: soon while it changes, and after twice the time after each read without a change. */
export function decideReadInterval({ changes, readMs, intervalMs }: LastRead, maxMs: number): number {
  const soonMs = Math.max(MIN_MS, readMs * REST);
  return Math.min(maxMs, changes > 0 ? soonMs : Math.max(soonMs, intervalMs * 2));
}
