import { toNanosecondsFromMs } from "@muster/leases";
import { isOngoing, type LeaseRecord } from "./lease.ts";

export type RetryPolicy = { readonly firstMs: number; readonly maxMs: number };

/** Returns the time of the next attempt: the pause doubles up to `maxMs`. */
export function decideRetry(failures: number, nowNs: bigint, { firstMs, maxMs }: RetryPolicy): bigint {
  return (
    nowNs + toNanosecondsFromMs(Math.round(Math.min(maxMs, firstMs * 2 ** Math.min(Math.max(failures - 1, 0), 40))))
  );
}

/** Failed attempts of a decommission after which the operator is alerted: about five minutes with the default pauses. */
const STUCK_AFTER_FAILURES = 10;
/** An expired lease begins to end within a second; after this time it is overdue. */
const OVERDUE_AFTER_NS = 300_000_000_000n;
/** Pause between two alerts about one lease. */
const ALERT_INTERVAL_NS = 3_600_000_000_000n;

type LeaseProgress = Pick<LeaseRecord, "phase" | "attempts" | "expiresAtNs">;

/** Whether a lease is still in force minutes after its expiry, because its end could not be written. */
export function isOverdue(lease: Pick<LeaseProgress, "phase" | "expiresAtNs">, nowNs: bigint): boolean {
  const afterNs = computeOverdueAfterNs(lease);
  return afterNs !== undefined && nowNs > afterNs;
}

/** The lease is overdue strictly after this time; undefined if it ends or has ended. */
export function computeOverdueAfterNs(lease: Pick<LeaseProgress, "phase" | "expiresAtNs">): bigint | undefined {
  return isOngoing(lease) ? lease.expiresAtNs + OVERDUE_AFTER_NS : undefined;
}

/** Whether the decommission has failed so often that the operator is alerted. */
export function isDecommissionStuck({ phase, attempts }: Pick<LeaseProgress, "phase" | "attempts">): boolean {
  return phase === "DECOMMISSIONING" && attempts >= STUCK_AFTER_FAILURES;
}

/** Whether resources of a lease remain because they cannot be removed. Attempts continue. */
export function isStuck(lease: LeaseProgress, nowNs: bigint): boolean {
  return isDecommissionStuck(lease) || isOverdue(lease, nowNs);
}

/** Whether the operator is alerted about a lease now; `alertedAtNs` is undefined before the first alert. */
export function decideAlert(lease: LeaseProgress, alertedAtNs: bigint | undefined, nowNs: bigint): boolean {
  return isStuck(lease, nowNs) && (alertedAtNs === undefined || nowNs - alertedAtNs >= ALERT_INTERVAL_NS);
}
