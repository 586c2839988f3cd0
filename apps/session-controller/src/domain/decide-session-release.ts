import type { SessionRecord } from "./session.ts";

/** A reservation under the name of a session. */
export type FoundReservation = {
  readonly id: string;
  readonly createdAtMs: number;
  readonly needs: readonly { readonly component: string; readonly pool: string }[];
};

/**
 * Returns the reservation id that the session may release or adopt; undefined: none. The record may lack the id, because its executor died before the write.
 * The session then owns the reservation of its name only if the reservation is not older than the session and requests its machines. If clocks differ, the
 * sweep releases the rest.
 */
export function decideSessionRelease(record: SessionRecord, found: FoundReservation | undefined): string | undefined {
  if (record.reservationId !== "") return record.reservationId;
  if (found === undefined || found.createdAtMs < record.createdAtMs) return undefined;
  const { components } = record.spec;
  const fits =
    found.needs.length === components.length &&
    components.every(({ name, pool }, index) => {
      const need = found.needs[index];
      return need?.component === name && need.pool === pool;
    });
  return fits ? found.id : undefined;
}
