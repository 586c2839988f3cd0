import type { SettableClock } from "@muster/backoff";

/** Keys, each with the time at which it is due. */
type DelayedKeys = {
  readonly size: number;
  /** The time at which the key is due; undefined: it does not wait. */
  atMs(key: string): number | undefined;
  /** The earlier of two times for one key wins. */
  put(key: string, atMs: number): void;
  clear(): void;
};

type Entry = { readonly key: string; readonly atMs: number };

/** Limit of stale entries, which an earlier time has replaced, beyond the number of keys. Above it, the heap is rebuilt. */
const MAX_STALE_ENTRIES = 64;

/** Passes each key to `due` at its time, in order of the times; all keys share one alarm. */
export function makeDelayedKeys(clock: SettableClock, due: (key: string) => void): DelayedKeys {
  const times = new Map<string, number>();
  let heap: Entry[] = [];
  let ringsAtMs = Infinity;
  let forgetAlarm = (): void => undefined;

  function wake(): void {
    ringsAtMs = Infinity;
    for (let first = heap[0]; first !== undefined && first.atMs <= clock.now(); first = heap[0]) {
      popFirst(heap);
      if (times.get(first.key) !== first.atMs) continue;
      times.delete(first.key);
      due(first.key);
    }
    setAlarm();
  }

  function setAlarm(): void {
    const next = heap[0]?.atMs ?? Infinity;
    if (next >= ringsAtMs) return;
    forgetAlarm();
    ringsAtMs = next;
    forgetAlarm = clock.alarm(next - clock.now(), wake);
  }

  return {
    get size() {
      return times.size;
    },
    atMs: (key) => times.get(key),
    put: (key, atMs) => {
      const known = times.get(key);
      if (known !== undefined && known <= atMs) return;
      times.set(key, atMs);
      push(heap, { key, atMs });
      if (heap.length > 2 * times.size + MAX_STALE_ENTRIES) {
        heap = [...times].map(([each, at]) => ({ key: each, atMs: at })).sort((one, two) => one.atMs - two.atMs);
      }
      setAlarm();
    },
    clear: () => {
      times.clear();
      heap = [];
      ringsAtMs = Infinity;
      forgetAlarm();
    },
  };
}

/** A binary heap in an array: the parent of the entry at n is at (n - 1) / 2 and is never later. */
function push(heap: Entry[], entry: Entry): void {
  let at = heap.length;
  heap.push(entry);
  while (at > 0) {
    const above = (at - 1) >> 1;
    const parent = heap[above];
    if (parent === undefined || parent.atMs <= entry.atMs) break;
    heap[at] = parent;
    at = above;
  }
  heap[at] = entry;
}

function popFirst(heap: Entry[]): void {
  const last = heap.pop();
  if (last === undefined || heap.length === 0) return;
  let at = 0;
  for (;;) {
    const left = 2 * at + 1;
    const [one, two] = [heap[left], heap[left + 1]];
    if (one === undefined) break;
    const [child, below] = two !== undefined && two.atMs < one.atMs ? [two, left + 1] : [one, left];
    if (child.atMs >= last.atMs) break;
    heap[at] = child;
    at = below;
  }
  heap[at] = last;
}
