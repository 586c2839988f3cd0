import type { LeaseEvent } from "./lease.ts";

/** What was told of one order. */
export type OrderHistory = {
  readonly events: readonly LeaseEvent[];
  /** Which order that is; undefined: nothing is told. */
  readonly order: string | undefined;
  /** Older events are of an earlier order of the id. */
  readonly isWhole: boolean;
};

/** Of events under one id, the oldest first, those of one order; undefined: of the last one. Once a record is gone, another order may have its id. */
export function buildHistory(events: readonly LeaseEvent[], order: string | undefined): OrderHistory {
  const last = events.at(-1);
  const wanted = order ?? (last && orderOf(last));
  const own = events.filter((event) => orderOf(event) === wanted);
  return { events: own, order: wanted, isWhole: own.length < events.length };
}

/** When the order of an event was created, in nanoseconds; it is part of the event's id. */
function orderOf({ id, lease }: LeaseEvent): string {
  return id.slice(lease.length + 1, Math.max(lease.length + 1, id.lastIndexOf(".")));
}
