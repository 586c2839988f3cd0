import { findCondition, type JobStatus } from "./job-status.ts";
import { transitionConditions } from "./transition-conditions.ts";

/** Notes that a queued job without a reason waits for the ledger to answer. An earlier reason stays, because the ledger has reported no change. */
export function recordSilence(status: JobStatus, nowMs: number): JobStatus {
  if (findCondition(status, "MachinesReserved") !== undefined) return status;
  const message = "waiting for the reservation manager, which does not answer";
  return transitionConditions(
    status,
    { type: "MachinesReserved", status: "False", reason: "LedgerSilent", message },
    nowMs,
  );
}
