import { DELETING } from "@muster/ledger-client/choose-queue";

/** Returns why a queue admits nothing, by the codes of its condition Admitting. The ledger calls each queue UNREADABLE whose record has a problem. */
export function getQueueReason(ledgerProblem: string, specProblem: string): string {
  if (specProblem === "") return ledgerProblem;
  return specProblem === DELETING ? "DELETING" : "INVALID_SPEC";
}
