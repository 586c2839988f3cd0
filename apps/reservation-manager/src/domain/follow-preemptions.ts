import type { PreemptionLimit } from "./decisions/plan-preemptions.ts";
import { getReservation, type Ledger, type LedgerEvent } from "./ledger/ledger.ts";
import type { PreemptionReason } from "./ledger/reservation.ts";

/**
 * The outcome of a preemption. Ended: the owner released the machines permanently. Served: the request got machines, with the time since its first preemption.
 * Limited: a limit prevented a request from preempting work in this pass.
 */
export type PreemptionNews =
  | {
      readonly kind: "planned" | "accepted" | "withdrawn" | "requeued" | "ended";
      readonly reason: PreemptionReason;
    }
  | { readonly kind: "served"; readonly reason: PreemptionReason; readonly tookMs: number }
  | { readonly kind: "limited"; readonly limit: PreemptionLimit };

/** The request's first preemption. */
type Wait = { readonly reason: PreemptionReason; readonly sinceMs: number };

/** Derives preemption news from the ledger's events. The caller passes each event after this state exactly once. */
export function followPreemptions(ledger: Ledger): (event: LedgerEvent) => readonly PreemptionNews[] {
  const reasons = new Map<number, PreemptionReason>();
  const waits = new Map<number, Wait>();
  const begin = (
    sequence: number,
    reason: PreemptionReason,
    beneficiary: number | undefined,
    sinceMs: number,
  ): void => {
    reasons.set(sequence, reason);
    const before = beneficiary === undefined ? undefined : waits.get(beneficiary);
    if (beneficiary !== undefined && (before === undefined || before.sinceMs > sinceMs))
      waits.set(beneficiary, { reason, sinceMs });
  };
  for (const sequence of ledger.leaving.keys()) {
    const { preemption } = getReservation(ledger, sequence).grant ?? {};
    if (preemption !== undefined) begin(sequence, preemption.reason, preemption.beneficiary, preemption.atMs);
  }
  const end = (sequence: number, kind: "withdrawn" | "requeued" | "ended"): readonly PreemptionNews[] => {
    const reason = reasons.get(sequence);
    reasons.delete(sequence);
    return reason === undefined ? [] : [{ kind, reason }];
  };
  const serve = (sequence: number, atMs: number): readonly PreemptionNews[] => {
    const wait = waits.get(sequence);
    waits.delete(sequence);
    return wait === undefined
      ? []
      : [{ kind: "served", reason: wait.reason, tookMs: Math.max(0, atMs - wait.sinceMs) }];
  };
  return (event) => {
    switch (event.kind) {
      case "preempted":
        begin(event.sequence, event.reason, event.beneficiary, event.atMs);
        return [{ kind: "planned", reason: event.reason }];
      case "preemptionAccepted": {
        const reason = reasons.get(event.sequence);
        return reason === undefined ? [] : [{ kind: "accepted", reason }];
      }
      case "preemptionWithdrawn":
        return end(event.sequence, "withdrawn");
      case "requeued":
        return end(event.sequence, "requeued");
      case "granted":
        return serve(event.sequence, event.atMs);
      case "released":
        waits.delete(event.sequence);
        return end(event.sequence, "ended");
      case "beneficiaryDropped":
        waits.delete(event.sequence);
        return [];
      default:
        return [];
    }
  };
}
