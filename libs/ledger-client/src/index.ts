export { askMachines, explainCalls, explanationMessage, NOTHING_ASKED } from "./ask-machines.ts";
export type { AskedMachines, ExplainCalls } from "./ask-machines.ts";
export { openLedgerClient } from "./ledger-client.ts";
export type { LedgerClient } from "./ledger-client.ts";
export { ledgerCalls, listenReservations } from "./ledger-calls.ts";
export type { LedgerCalls, ReservationCalls } from "./ledger-calls.ts";
export type { Need, Reservation, Share, WaitReason } from "./reservation.ts";
export { logNotRemoved, reportFirst, sweepOwners } from "./sweep-owners.ts";
export type { SweepFailure, SweepOptions } from "./sweep-owners.ts";
