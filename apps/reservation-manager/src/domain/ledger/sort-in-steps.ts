import type { Steps } from "./steps.ts";

/** Entries that are sorted or merged per step, which takes a few milliseconds. */
export const ENTRIES_PER_STEP = 16_384;

/** Sorts in steps as `Array.sort` does: equal entries keep their order. */
export function* sortInSteps<Entry extends object>(
  entries: readonly Entry[],
  order: (a: Entry, b: Entry) => number,
): Steps<readonly Entry[]> {
  let runs: (readonly Entry[])[] = [];
  for (let at = 0; at < entries.length; at += ENTRIES_PER_STEP) {
    runs.push(entries.slice(at, at + ENTRIES_PER_STEP).sort(order));
    yield;
  }
  while (runs.length > 1) {
    const merged: (readonly Entry[])[] = [];
    for (let index = 0; index < runs.length; index += 2)
      merged.push(yield* merge(runs[index] ?? [], runs[index + 1] ?? [], order));
    runs = merged;
  }
  return runs[0] ?? [];
}

function* merge<Entry extends object>(
  left: readonly Entry[],
  right: readonly Entry[],
  order: (a: Entry, b: Entry) => number,
): Steps<readonly Entry[]> {
  const [last, first] = [left.at(-1), right[0]];
  if (last === undefined || first === undefined || order(last, first) <= 0) return left.concat(right);
  const merged: Entry[] = [];
  let [at, beside] = [0, 0];
  for (;;) {
    const [a, b] = [left[at], right[beside]];
    if (a === undefined || b === undefined) return merged.concat(left.slice(at), right.slice(beside));
    if (order(a, b) <= 0) {
      merged.push(a);
      at += 1;
    } else {
      merged.push(b);
      beside += 1;
    }
    if (merged.length % ENTRIES_PER_STEP === 0) yield;
  }
}
