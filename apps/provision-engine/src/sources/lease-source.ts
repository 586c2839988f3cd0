import type { Order } from "@muster/leases";

export type PolledOrder = {
  readonly order: Order;
  readonly withdrawn: boolean;
  /** The controller has a result of it. */
  readonly isAnswered: boolean;
};

/** A job from a source. */
export type LeaseJob =
  | ({ readonly kind: "order"; readonly source: string } & PolledOrder)
  /** An entry that is not a valid order. */
  | { readonly kind: "unreadable"; readonly source: string; readonly id: string; readonly reason: string }
  /** All orders that existed when the source was opened have been delivered. */
  | { readonly kind: "history-read"; readonly source: string };

/** Yields jobs until the signal or its end; the next job is requested once the previous one was taken. */
export type LeaseSource = (signal: AbortSignal) => AsyncIterable<LeaseJob>;
