import { computeBackoffMs } from "@muster/backoff";

type RateLimiter = {
  /** Returns the pause of a failed key in milliseconds. Counts one more failure of that key, and one retry of all keys together. */
  delayMs(key: string): number;
  /** Counts a failure of a key whose retry is already scheduled. */
  noteFailure(key: string): void;
  /** Failures of the key since it was last forgotten. */
  failures(key: string): number;
  forget(key: string): void;
};

export type RateLimits = {
  /** The longest pause after the first failure of a key; doubles with each further one, up to `maxMs`. */
  readonly firstMs: number;
  readonly maxMs: number;
  /** Rate limit of all keys together: retries per second, after a burst of `burst`. */
  readonly perSecond: number;
  readonly burst: number;
  /** Maximum wait of a key for the limit of all keys, so that many failing keys do not delay a new one. */
  readonly maxWaitMs: number;
};

/**
 * The limits of client-go: per key 5 ms x 2^n up to 1000 s, for all keys 10 retries per second after a burst of 100. client-go has no jitter and no
 * `maxWaitMs`.
 */
export const DEFAULT_RATE_LIMITS: RateLimits = {
  firstMs: 5,
  maxMs: 1_000_000,
  perSecond: 10,
  burst: 100,
  maxWaitMs: 60_000,
};

/**
 * Returns the longer of an exponential pause per key and the wait for a token bucket that all keys share. The pause is random within its upper half, so that
 * keys that failed together are not retried together. Stores one number per failed key until the caller forgets the key, because it succeeded or is gone.
 * `random` returns numbers from 0 to less than 1. Throws a plain Error for limits that are not positive numbers.
 */
export function makeRateLimiter(
  limits: RateLimits,
  now: () => number,
  random: () => number = Math.random,
): RateLimiter {
  for (const [name, value] of Object.entries(limits)) {
    if (!(value > 0)) throw new Error(`the rate limit ${name} is ${value}, more than 0 is needed`);
  }
  const failures = new Map<string, number>();
  const bucket = makeTokenBucket(limits, now);
  const noteFailure = (key: string): number => {
    const count = (failures.get(key) ?? 0) + 1;
    failures.set(key, count);
    return count;
  };
  const waitMs = (): number => {
    const ms = bucket.takeMs();
    // Spread waits that reach the maximum, because they would otherwise end together.
    return ms < limits.maxWaitMs ? ms : ms * (0.5 + random() / 2);
  };
  return {
    delayMs: (key) => Math.max(computeBackoffMs(noteFailure(key), limits, random), waitMs()),
    noteFailure,
    failures: (key) => failures.get(key) ?? 0,
    forget: (key) => failures.delete(key),
  };
}

/**
 * A token bucket. `takeMs` always takes a token, also a future one, and returns the milliseconds until it exists, at most `maxWaitMs`. `tryTake` takes only an
 * existing token.
 */
export function makeTokenBucket(
  { perSecond, burst, maxWaitMs = Infinity }: Pick<RateLimits, "perSecond" | "burst"> & Partial<RateLimits>,
  now: () => number,
): { takeMs(): number; tryTake(): boolean } {
  const minTokens = (-maxWaitMs / 1000) * perSecond;
  let tokens = burst;
  let atMs = now();
  function refill(): void {
    const nowMs = now();
    tokens = Math.min(burst, tokens + ((nowMs - atMs) / 1000) * perSecond);
    atMs = nowMs;
  }
  return {
    takeMs: () => {
      refill();
      tokens = Math.max(minTokens, tokens - 1);
      return tokens >= 0 ? 0 : (-tokens / perSecond) * 1000;
    },
    tryTake: () => {
      refill();
      if (tokens < 1) return false;
      tokens -= 1;
      return true;
    },
  };
}
