/**
 * All troubles of sets and rolling updates. A set with several shows the first in this order. All farms use the same order: otherwise the troubles would
 * alternate, each time with a write and an alert. Troubles that change the set's behaviour come first. Troubles noticed only when they occur follow, and
 * troubles that every pass finds again come last.
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

/** Returns whether a set with both troubles shows the first. */
export function isTroubleWorse(a: TroubleCode, b: TroubleCode): boolean {
  return TROUBLES.indexOf(a) < TROUBLES.indexOf(b);
}
