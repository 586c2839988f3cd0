import { goesOn, type LeaseRecord } from "./lease.ts";

/** Failures after which a lease that is to be taken down is somebody's business; with the default pauses that is after some five minutes. */
const FAILURES = 10;
/** An end is begun within a second; one that was not for so long never may be. */
const OVERDUE_NS = 300_000_000_000n;
/** It is told again after this. */
const REPEAT_NS = 3_600_000_000_000n;

type Lasting = Pick<LeaseRecord, "phase" | "attempts" | "expiresAtNs">;

/** Whether a lease goes on though it is over: for minutes nobody could write down that it ends. */
export function isOverdue(lease: Pick<Lasting, "phase" | "expiresAtNs">, nowNs: bigint): boolean {
  const afterNs = overdueAfterNs(lease);
  return afterNs !== undefined && nowNs > afterNs;
}

/** Strictly after this time it goes on though it is over; undefined: never, it ends or has ended. */
export function overdueAfterNs(lease: Pick<Lasting, "phase" | "expiresAtNs">): bigint | undefined {
  return goesOn(lease) ? lease.expiresAtNs + OVERDUE_NS : undefined;
}

/** Whether it was tried in vain to take it down so often that it is somebody's business. */
export function cannotGo({ phase, attempts }: Pick<Lasting, "phase" | "attempts">): boolean {
  return phase === "DECOMMISSIONING" && attempts >= FAILURES;
}

/** Whether something of a lease is still there because it cannot be taken down. It is tried on. */
export function isStuck(lease: Lasting, nowNs: bigint): boolean {
  return cannotGo(lease) || isOverdue(lease, nowNs);
}

/** Whether people are told of a lease now; undefined: they were not yet. */
export function decideAlert(lease: Lasting, toldAtNs: bigint | undefined, nowNs: bigint): boolean {
  return isStuck(lease, nowNs) && (toldAtNs === undefined || nowNs - toldAtNs >= REPEAT_NS);
}
