/** The ledger's words for a wait, as its replies have them. */
export type LedgerReason = {
  readonly code: string;
  readonly pool: string;
  readonly requested: number;
  readonly available: number;
  readonly ahead: number;
};

/** For people. */
export function explainWait({ code, pool, requested, available, ahead }: LedgerReason): string {
  const queue = ahead === 0 ? "" : `; ${ahead} ${ahead === 1 ? "request is" : "requests are"} ahead`;
  const free = `${available} ${available === 1 ? "machine" : "machines"} free`;
  switch (code) {
    case "POOL_AVAILABILITY":
      return `pool ${pool} has ${free}, ${requested} ${requested === 1 ? "is" : "are"} needed${queue}`;
    case "HELD_FOR_OLDER":
      return `pool ${pool} has ${free}, and they are kept for an older request${queue}`;
    case "POOLS_NOT_KNOWN_YET":
      return "the pools are not known yet";
    default:
      return `${code}${pool === "" ? "" : ` in pool ${pool}`}${queue}`;
  }
}
