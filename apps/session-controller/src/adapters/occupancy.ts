import type { View } from "@muster/store";

/** The fields of a stored session that count towards the limits. */
export type Occupant = { readonly finishedAtMs: number; readonly storedBytes: number };

/** Tracks the number of unfinished sessions and the size of all sessions incrementally, because each submission needs both. */
export function buildOccupancy(
  index: View<Occupant>,
): () => { readonly unfinished: number; readonly storedBytes: number } {
  const counted = new Map<string, { readonly unfinished: number; readonly storedBytes: number }>();
  let unfinished = 0;
  let storedBytes = 0;
  const count = (name: string): void => {
    const before = counted.get(name);
    const value = index.get(name)?.value;
    unfinished -= before?.unfinished ?? 0;
    storedBytes -= before?.storedBytes ?? 0;
    if (value === undefined) {
      counted.delete(name);
      return;
    }
    const now = { unfinished: value.finishedAtMs === 0 ? 1 : 0, storedBytes: value.storedBytes };
    counted.set(name, now);
    unfinished += now.unfinished;
    storedBytes += now.storedBytes;
  };
  for (const { key } of index.entries()) count(key);
  index.onChange(count);
  return () => ({ unfinished, storedBytes });
}
