import { nsFromMs } from "@muster/leases";

export type RetryPolicy = { readonly firstMs: number; readonly maxMs: number };

/** Returns the time of the next attempt: the pause doubles up to `maxMs`. */
export function decideRetry(failures: number, nowNs: bigint, { firstMs, maxMs }: RetryPolicy): bigint {
  return nowNs + nsFromMs(Math.round(Math.min(maxMs, firstMs * 2 ** Math.min(Math.max(failures - 1, 0), 40))));
}
