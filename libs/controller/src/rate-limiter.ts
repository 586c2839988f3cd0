import { backoffMs } from "@muster/backoff";

/** Returns the pause of a key that failed, in milliseconds. Each call counts as one more failure of that key. */
type RateLimiter = {
  delayMs(key: string): number;
  /** Failures of the key since it was last forgotten. */
  failures(key: string): number;
  forget(key: string): void;
};

export type RateLimits = {
  /** The longest pause after the first failure of a key; doubles with each further one, up to `maxMs`. */
  readonly firstMs: number;
  readonly maxMs: number;
  /** All keys together: this many retries a second, after a burst of `burst`. */
  readonly perSecond: number;
  readonly burst: number;
};

/** client-go's: 5 ms x 2^n up to 1000 s a key, 10 a second after a burst of 100 for all. The jitter is not client-go's. */
export const DEFAULT_RATE_LIMITS: RateLimits = { firstMs: 5, maxMs: 1_000_000, perSecond: 10, burst: 100 };

/**
 * The longer one of an exponential pause per key and a token bucket shared by all. The pause is spread over its upper half, so that keys that failed together
 * are not retried together. Remembers one number for each key that failed and was not forgotten: the caller forgets a key that succeeded or is gone. `random`
 * returns numbers from 0 to less than 1. Throws a plain Error for limits that are no positive numbers.
 */
export function rateLimiter(limits: RateLimits, now: () => number, random: () => number = Math.random): RateLimiter {
  for (const [name, value] of Object.entries(limits)) {
    if (!(value > 0)) throw new Error(`the rate limit ${name} is ${value}, more than 0 is needed`);
  }
  const failures = new Map<string, number>();
  const bucket = tokenBucket(limits, now);
  return {
    delayMs: (key) => {
      const count = (failures.get(key) ?? 0) + 1;
      failures.set(key, count);
      return Math.max(backoffMs(count, limits, random), bucket.takeMs());
    },
    failures: (key) => failures.get(key) ?? 0,
    forget: (key) => failures.delete(key),
  };
}

/** A token bucket. `takeMs` always takes a token, also a future one, and returns the milliseconds until it exists. `tryTake` takes only one that exists. */
export function tokenBucket(
  { perSecond, burst }: Pick<RateLimits, "perSecond" | "burst">,
  now: () => number,
): { takeMs(): number; tryTake(): boolean } {
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
      tokens -= 1;
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
