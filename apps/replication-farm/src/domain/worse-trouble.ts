import type { TroubleCode } from "./replica-set.ts";

/**
 * Which of two troubles a set shows, the smaller number first. The order is fixed for all farms: otherwise the troubles would alternate, and each change
 * would be a write and an alert. First troubles on which the set acts, then those that are noticed only when they occur, then those that every pass finds
 * again.
 */
const ORDER = {
  MACHINES_GONE: 1,
  NO_ELIGIBLE_NODES: 2,
  ROLL_SET_MISSING: 3,
  TRANSFER_FAILED: 4,
  POD_REFUSED: 5,
  MACHINE_REFUSED: 6,
  LEDGER_AWAY: 7,
  WAITING_FOR_MACHINE: 8,
  OVERLAP: 9,
  TOO_FEW_NODES: 10,
  NOT_HEALTHY: 11,
  ROLL_STUCK: 12,
} satisfies Record<TroubleCode, number>;

/** Whether a set that has both troubles shows the first. */
export function isWorse(a: TroubleCode, b: TroubleCode): boolean {
  return ORDER[a] < ORDER[b];
}
