import { limitOf, type Ledger, type LedgerEvent } from "../ledger/ledger.ts";

export type LimitRequest = {
  readonly ownerKind: string;
  /** Maximum of concurrently granted reservations of the kind; 0: no limit. */
  readonly limit: number;
};

export type LimitVerdict =
  | { readonly kind: "limit"; readonly events: readonly LedgerEvent[]; readonly because: "ANOTHER_LIMIT" }
  | { readonly kind: "nothing"; readonly events: readonly []; readonly because: "IN_FORCE" };

/** Sets the concurrency limit of an owner kind, also for requests that wait. Granted reservations keep their machines, even if they exceed it. */
export function decideLimit({ ownerKind, limit }: LimitRequest, ledger: Ledger, nowMs: number): LimitVerdict {
  if (limitOf(ledger, ownerKind) === limit) return { kind: "nothing", events: [], because: "IN_FORCE" };
  return { kind: "limit", events: [{ kind: "limited", ownerKind, limit, atMs: nowMs }], because: "ANOTHER_LIMIT" };
}
