/**
 * All troubles of sets and rolling updates. A set with several shows the one that comes first here. The order is fixed for all farms: otherwise the troubles
 * would alternate, and each change would be a write and an alert. Troubles on which the set acts come first, then those that are noticed only when they occur,
 * then those that every pass finds again.
 */
export const TROUBLES = [
  "MACHINES_GONE",
  "NO_ELIGIBLE_NODES",
  "ROLL_SET_MISSING",
  "TRANSFER_FAILED",
  "POD_REFUSED",
  "MACHINE_REFUSED",
  "LEDGER_AWAY",
  "WAITING_FOR_MACHINE",
  "OVERLAP",
  "TOO_FEW_NODES",
  "NOT_HEALTHY",
  "ROLL_STUCK",
] as const;

export type TroubleCode = (typeof TROUBLES)[number];

/** Whether a set that has both troubles shows the first. */
export function isWorse(a: TroubleCode, b: TroubleCode): boolean {
  return TROUBLES.indexOf(a) < TROUBLES.indexOf(b);
}
