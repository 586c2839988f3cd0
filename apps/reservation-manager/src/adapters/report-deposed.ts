import { findFault } from "@muster/faults";
import type { Logger } from "@muster/service";

/** Logs why the writer of the ledger was deposed. During a stop it logs defects only. Rethrows a defect. */
export function reportDeposed(logger: Pick<Logger, "warn" | "error">, reason: unknown, isStopping: boolean): void {
  if (findFault(reason) === undefined) {
    logger.error({ err: reason }, "a defect ended the writer of the ledger");
    throw reason;
  }
  if (!isStopping) logger.warn({ err: reason }, "the writer of the ledger was deposed");
}
