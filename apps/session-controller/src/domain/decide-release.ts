import type { SessionRecord } from "./session.ts";

/** A reservation that stands under the name of a session. */
export type FoundReservation = {
  readonly id: string;
  readonly createdAtMs: number;
  readonly needs: readonly { readonly component: string; readonly pool: string }[];
};

/**
 * The id of the reservation that the session may give back; undefined when there is none. A record that knows no id (its executor died between the ledger's
 * answer and the next write) owns what stands under its name only if that is not older than the session and asks for the session's machines; what this leaves
 * behind, because two clocks differ, the sweep gives back.
 */
export function decideRelease(record: SessionRecord, found: FoundReservation | undefined): string | undefined {
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
