import type { Order } from "@muster/leases";

export type PolledOrder = {
  readonly order: Order;
  readonly withdrawn: boolean;
  /** The controller has a result of it. */
  readonly isAnswered: boolean;
};

/** What a source brings. */
export type LeaseJob =
  | ({ readonly kind: "order"; readonly source: string } & PolledOrder)
  /** What came as an order and is none. */
  | { readonly kind: "unreadable"; readonly source: string; readonly id: string; readonly reason: string }
  /** All that the source had when it was opened has been brought. */
  | { readonly kind: "history-read"; readonly source: string };

/** Brings jobs until the signal, or until it has no more; a job is asked for once the one before was taken. */
export type LeaseSource = (signal: AbortSignal) => AsyncIterable<LeaseJob>;
