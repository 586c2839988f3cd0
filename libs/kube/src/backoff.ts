export type BackoffLimits = { readonly minMs: number; readonly maxMs: number };

/** The pause before attempt number `failures + 1`: doubled each time up to maxMs, then half of it at random, so that clients that failed together do not return together. */
export function backoffMs(failures: number, limits: BackoffLimits, random: number): number {
  const full = Math.min(limits.maxMs, limits.minMs * 2 ** Math.max(0, failures - 1));
  return Math.round(full * (0.5 + random / 2));
}
