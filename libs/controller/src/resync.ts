import { systemClock, type Clock } from "@muster/backoff";

/** Number of parts of a period; keys are spread over the parts by their names. */
const PARTS = 16;

/**
 * Calls `add` with each key of `keys` once per period, also while keys appear and disappear. Each key has its own part of the period, so that the passes are
 * spread over it. Calls `keys` 16 times per period. Returns the function that stops the resync. Throws a plain Error for a period that is no positive number.
 */
export function startResync(options: {
  readonly everyMs: number;
  readonly keys: () => Iterable<string>;
  readonly add: (key: string) => void;
  /** Called once each key has been added since the last call. */
  readonly onRound?: () => void;
  readonly clock?: Clock;
}): () => void {
  const { everyMs, keys, add, onRound, clock = systemClock } = options;
  if (!(everyMs > 0)) throw new Error(`a resync every ${everyMs} ms`);
  const startedAtMs = clock.now();
  let part = 0;
  let forget = (): void => undefined;

  function wait(): void {
    const nextAtMs = startedAtMs + ((part + 1) * everyMs) / PARTS;
    forget = clock.alarm(nextAtMs - clock.now(), addPart);
  }
  function addPart(): void {
    // A process that was held up for long catches up on each part, once.
    const passed = Math.floor(((clock.now() - startedAtMs) * PARTS) / everyMs);
    const due = new Set(Array.from({ length: Math.min(PARTS, passed - part) }, (_, at) => (part + at) % PARTS));
    const isRoundOver = Math.floor(passed / PARTS) > Math.floor(part / PARTS);
    part = passed;
    wait();
    if (due.size === 0) return;
    for (const key of keys()) if (due.has(computePart(key))) add(key);
    if (isRoundOver) onRound?.();
  }

  wait();
  return () => forget();
}

/** FNV-1a: spreads names that differ in one digit. */
function computePart(key: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < key.length; at += 1) hash = Math.imul(hash ^ key.charCodeAt(at), 0x01000193);
  return ((hash ^ (hash >>> 16)) >>> 0) % PARTS;
}
