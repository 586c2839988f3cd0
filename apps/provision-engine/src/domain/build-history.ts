import type { LeaseEvent } from "./lease.ts";

type OrderHistory = {
  readonly events: readonly LeaseEvent[];
  /** The order to which the events belong; undefined without events. */
  readonly order: string | undefined;
  /** Older events belong to an earlier order of the same id. */
  readonly isWhole: boolean;
};

/** Selects the events of one order, oldest first; `order` undefined selects the last order. An id can be reused once the record of its order is removed. */
export function buildHistory(events: readonly LeaseEvent[], order: string | undefined): OrderHistory {
  const last = events.at(-1);
  const wanted = order ?? (last && buildSortKey(last));
  const own = events.filter((event) => buildSortKey(event) === wanted);
  return { events: own, order: wanted, isWhole: own.length < events.length };
}

/** Creation time of the event's order in nanoseconds, a part of the event id. */
function buildSortKey({ id, lease }: LeaseEvent): string {
  return id.slice(lease.length + 1, Math.max(lease.length + 1, id.lastIndexOf(".")));
}
