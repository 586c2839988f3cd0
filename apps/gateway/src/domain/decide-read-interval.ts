/** A list that changes is read this often, if reading is quick. */
const MIN_MS = 50;
/** Reading takes a third of the time at most, so that many lists that change slow each other down and nothing else. */
const REST = 2;

export type LastRead = {
  readonly changes: number;
  /** How long reading took. */
  readonly readMs: number;
  /** The interval before it. */
  readonly intervalMs: number;
};

/** When a list that is watched is read again: soon while it changes, and twice as late after each read without a change. */
export function decideReadInterval({ changes, readMs, intervalMs }: LastRead, maxMs: number): number {
  const soonMs = Math.max(MIN_MS, readMs * REST);
  return Math.min(maxMs, changes > 0 ? soonMs : Math.max(soonMs, intervalMs * 2));
}
