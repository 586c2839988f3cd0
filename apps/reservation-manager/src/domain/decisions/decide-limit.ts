import { limitOf, type Ledger, type LedgerEvent } from "../ledger/ledger.ts";

export type LimitRequest = {
  readonly ownerKind: string;
  /** No reservation of the kind is granted while so many of the kind are; 0: no limit. */
  readonly limit: number;
};

export type LimitVerdict =
  | { readonly kind: "limit"; readonly events: readonly LedgerEvent[]; readonly because: "ANOTHER_LIMIT" }
  | { readonly kind: "nothing"; readonly events: readonly []; readonly because: "IN_FORCE" };

/**
 * Puts the limit of an owner kind into force, for those that wait as well. Those that hold machines keep them, also where there are more than the limit now.
 */
export function decideLimit({ ownerKind, limit }: LimitRequest, ledger: Ledger, nowMs: number): LimitVerdict {
  if (limitOf(ledger, ownerKind) === limit) return { kind: "nothing", events: [], because: "IN_FORCE" };
  return { kind: "limit", events: [{ kind: "limited", ownerKind, limit, atMs: nowMs }], because: "ANOTHER_LIMIT" };
}
