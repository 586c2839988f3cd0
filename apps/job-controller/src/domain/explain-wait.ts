/** The ledger's reason for a wait, in the form of its replies. */
type LedgerReason = {
  readonly code: string;
  readonly pool: string;
  readonly requested: number;
};

/** For people. The text is stored in the job's status, so it names no number that changes while the job waits. */
export function explainWait({ code, pool, requested }: LedgerReason): string {
  switch (code) {
    case "POOL_AVAILABILITY":
      return requested === 1
        ? `1 machine of pool ${pool} is needed, and none is free`
        : `${requested} machines of pool ${pool} are needed, and fewer are free`;
    case "HELD_FOR_OLDER":
      return `the free machines of pool ${pool} are kept for an older request`;
    case "POOLS_NOT_KNOWN_YET":
      return "the pools are not known yet";
    default:
      return `${code}${pool === "" ? "" : ` in pool ${pool}`}`;
  }
}
