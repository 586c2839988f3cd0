import type { LeaseRecord } from "./lease.ts";

/** Failures after which a lease that is to be taken down is somebody's business; with the default pauses that is after some five minutes. */
const FAILURES = 10;
/** It is told again after this. */
const REPEAT_MS = 3_600_000;

/** Whether something of a lease is still there because it cannot be taken down. It is tried on. */
export function isStuck({ phase, attempts }: Pick<LeaseRecord, "phase" | "attempts">): boolean {
  return phase === "DECOMMISSIONING" && attempts >= FAILURES;
}

/** Whether people are told of a lease now; undefined: they were not yet. */
export function decideAlert(
  lease: Pick<LeaseRecord, "phase" | "attempts">,
  toldAtMs: number | undefined,
  nowMs: number,
) {
  return isStuck(lease) && (toldAtMs === undefined || nowMs - toldAtMs >= REPEAT_MS);
}
