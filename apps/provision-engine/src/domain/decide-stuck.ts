import { isOngoing, type LeaseRecord } from "./lease.ts";

/** Failures after which a lease that is to be taken down is somebody's business; with the default pauses that is after some five minutes. */
const STUCK_AFTER_FAILURES = 10;
/** An end is begun within a second; one that was not for so long never may be. */
const OVERDUE_AFTER_NS = 300_000_000_000n;
/** It is told again after this. */
const ALERT_INTERVAL_NS = 3_600_000_000_000n;

type LeaseProgress = Pick<LeaseRecord, "phase" | "attempts" | "expiresAtNs">;

/** Whether a lease goes on though it is over: for minutes nobody could write down that it ends. */
export function isOverdue(lease: Pick<LeaseProgress, "phase" | "expiresAtNs">, nowNs: bigint): boolean {
  const afterNs = overdueAfterNs(lease);
  return afterNs !== undefined && nowNs > afterNs;
}

/** Strictly after this time it goes on though it is over; undefined: never, it ends or has ended. */
export function overdueAfterNs(lease: Pick<LeaseProgress, "phase" | "expiresAtNs">): bigint | undefined {
  return isOngoing(lease) ? lease.expiresAtNs + OVERDUE_AFTER_NS : undefined;
}

/** Whether it was tried in vain to take it down so often that it is somebody's business. */
export function isDecommissionStuck({ phase, attempts }: Pick<LeaseProgress, "phase" | "attempts">): boolean {
  return phase === "DECOMMISSIONING" && attempts >= STUCK_AFTER_FAILURES;
}

/** Whether something of a lease is still there because it cannot be taken down. It is tried on. */
export function isStuck(lease: LeaseProgress, nowNs: bigint): boolean {
  return isDecommissionStuck(lease) || isOverdue(lease, nowNs);
}

/** Whether people are told of a lease now; undefined: they were not yet. */
export function decideAlert(lease: LeaseProgress, alertedAtNs: bigint | undefined, nowNs: bigint): boolean {
  return isStuck(lease, nowNs) && (alertedAtNs === undefined || nowNs - alertedAtNs >= ALERT_INTERVAL_NS);
}
