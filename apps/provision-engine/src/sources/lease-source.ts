import type { PolledOrder } from "./poll-source.ts";

/** What a source brings. */
export type LeaseJob =
  | ({ readonly kind: "order"; readonly source: string } & PolledOrder)
  /** What came as an order and is none. */
  | { readonly kind: "unreadable"; readonly source: string; readonly id: string; readonly reason: string }
  /** The lease is to be looked at: its time may be over. */
  | { readonly kind: "due"; readonly id: string }
  /** All that the source had when it was opened has been brought. */
  | { readonly kind: "history-read"; readonly source: string };

/** Brings jobs until the signal, or until it has no more; a job is asked for once the one before was taken. */
export type LeaseSource = (signal: AbortSignal) => AsyncIterable<LeaseJob>;
