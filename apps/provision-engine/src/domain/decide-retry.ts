import { nsFromMs } from "@muster/leases";

export type RetryPolicy = { readonly firstMs: number; readonly maxMs: number };

/** When what has failed so often is tried again: the pause doubles from the first to the longest. */
export function decideRetry(failures: number, nowNs: bigint, { firstMs, maxMs }: RetryPolicy): bigint {
  return nowNs + nsFromMs(Math.round(Math.min(maxMs, firstMs * 2 ** Math.min(Math.max(failures - 1, 0), 40))));
}
