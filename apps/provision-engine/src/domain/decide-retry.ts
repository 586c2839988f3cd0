import { nsFromMs } from "@muster/leases";

export type RetryPolicy = { readonly firstMs: number; readonly mostMs: number };

/** When what has failed so often is tried again: the pause doubles from the first to the longest. */
export function decideRetry(failures: number, nowNs: bigint, { firstMs, mostMs }: RetryPolicy): bigint {
  return nowNs + nsFromMs(Math.round(Math.min(mostMs, firstMs * 2 ** Math.min(Math.max(failures - 1, 0), 40))));
}
