import type { TransferReason } from "./replica-set.ts";

/** For people. Audits, troubles and answers have this text; records have it beside the code, because earlier versions read nothing else. */
export function describeTransferReason(because: TransferReason): string {
  return because.code === "REQUESTED" ? "somebody asked for it" : because.detail;
}
