import type { Order } from "@muster/leases";

/** What a source brings. */
export type LeaseJob =
  | { readonly kind: "order"; readonly source: string; readonly order: Order; readonly withdrawn: boolean }
  /** The lease is to be looked at: its time may be over. */
  | { readonly kind: "due"; readonly id: string }
  /** All that the source had when it was opened has been brought. */
  | { readonly kind: "history-read"; readonly source: string };

/** Brings jobs until the signal, or until it has no more; a job is asked for once the one before was taken. */
export type LeaseSource = (signal: AbortSignal) => AsyncIterable<LeaseJob>;
