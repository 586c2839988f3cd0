import type { TransferReason } from "./replica-set.ts";

/** Describes the reason in audits, troubles and answers. Records keep the text beside the code, because earlier versions read only the text. */
export function describeTransferReason(because: TransferReason): string {
  return because.code === "REQUESTED" ? "somebody asked for it" : because.detail;
}
