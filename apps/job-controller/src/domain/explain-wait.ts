import { describeQueueWait } from "@muster/ledger-client/describe-queue-wait";

/** The ledger's reason for a wait, in the form of its replies. */
type LedgerReason = {
  readonly code: string;
  readonly pool: string;
  readonly requested: number;
  /** The number of parts of machines in `requested`. */
  readonly parts?: number;
  /** The selector of the nodes that can be granted, for people. */
  readonly nodes?: string | undefined;
  readonly topology?: string | undefined;
  readonly queue?: string | undefined;
  readonly quota?: { readonly pool: string; readonly resource: string; readonly requested: number } | undefined;
};

/** Describes a wait for people. The text is stored in the job's status, so it contains no number that changes during the wait. */
export function explainWait(reason: LedgerReason): string {
  const { code, pool, requested, parts = 0, nodes, topology } = reason;
  const among = nodes === undefined ? "" : ` that its pods accept (${nodes})`;
  switch (code) {
    case "POOL_AVAILABILITY":
      if (parts > 0) return explainParts(pool, requested - parts, parts, among);
      return requested === 1
        ? `1 machine of pool ${pool}${among} is needed, and none is free`
        : `${requested} machines of pool ${pool}${among} are needed, and fewer are free`;
    case "FRAGMENTED":
      return `the free amounts of pool ${pool}${among} suffice in sum for ${parts === 1 ? "1 part of a machine" : `${parts} parts of machines`}, but not on single machines`;
    case "BEHIND_HIGHER_PRIORITY":
      return "the machines or quota that it needs are kept for a request with a higher priority";
    case "BEHIND_FAIR_SHARE":
      return "the machines or quota that it needs are kept for a request of another queue, which borrows less or has a lower share";
    case "WAITING_FOR_TOPOLOGY":
      return `${requested} machines, or parts of machines, are needed on nodes with one value of the label ${topology ?? ""}, and no value has enough`;
    case "POOL_TOO_SMALL":
      return `pool ${pool} has become too small for ${requested === 1 ? "1 machine" : `${requested} machines`}${among}, or parts of machines`;
    case "HELD_FOR_OLDER":
      return `the free machines of pool ${pool} are kept for an older request`;
    case "POOLS_NOT_KNOWN_YET":
      return "the pools are not known yet";
    default:
      return describeQueueWait(reason) ?? `${code}${pool === "" ? "" : ` in pool ${pool}`}`;
  }
}

function explainParts(pool: string, machines: number, parts: number, among: string): string {
  const part = parts === 1 ? "1 part of a machine" : `${parts} parts of machines`;
  if (machines === 0)
    return `${part} of pool ${pool}${among} ${parts === 1 ? "is needed, and no machine has room" : "are needed, and fewer fit"}`;
  return `${machines === 1 ? "1 machine" : `${machines} machines`} and ${part} of pool ${pool}${among} are needed, and fewer fit`;
}
