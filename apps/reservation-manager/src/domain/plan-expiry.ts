import type { Ledger, LedgerEvent } from "./ledger.ts";

export type ExpiryStep = { readonly do: "expire"; readonly sequence: number; readonly because: "TIME_LIMIT" };

export type ExpiryPolicy = {
  /** Reservations that one plan ends, so that what is written at once is not larger than the log takes. */
  readonly expiriesPerPlan: number;
};

/**
 * Which reservations are over because nobody renewed them, the longest overdue first. Nothing is before `notBeforeMs`: where nobody could renew, as while no
 * replica led, silence does not show that an owner is gone.
 */
export function planExpiry(
  ledger: Ledger,
  { expiriesPerPlan }: ExpiryPolicy,
  nowMs: number,
  notBeforeMs: number,
): readonly ExpiryStep[] {
  const steps: ExpiryStep[] = [];
  if (nowMs < notBeforeMs) return steps;
  for (const { atMs, sequence } of ledger.expiries.keys()) {
    if (atMs > nowMs || steps.length === expiriesPerPlan) break;
    steps.push({ do: "expire", sequence, because: "TIME_LIMIT" });
  }
  return steps;
}

/** When the next reservation is over unless it is renewed; undefined when none has a time limit. */
export function nextExpiryAt(ledger: Ledger, notBeforeMs: number): number | undefined {
  const first = ledger.expiries.first();
  return first === undefined ? undefined : Math.max(first[0].atMs, notBeforeMs);
}

export function expiryEvent({ sequence }: ExpiryStep, nowMs: number): LedgerEvent {
  return { kind: "expired", sequence, atMs: nowMs };
}
