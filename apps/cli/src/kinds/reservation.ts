import { buildRecord } from "../domain/build-record.ts";
import { buildReservationTable } from "../domain/build-views.ts";
import { orderReservations } from "../domain/order-reservations.ts";
import type { Reservation } from "../adapters/reservation-messages.ts";
import type { ResourceRow } from "./resource.ts";

/** Owners that hold machines or wait for them. The name is that of the owner: `KIND/ID`, or the name of a session. */
export const RESERVATION: ResourceRow<Reservation> = {
  noun: "reservation",
  plural: "reservations",
  none: "no reservations",
  get: ({ services }, owner) => {
    const slash = owner.indexOf("/");
    return services.reservation(slash < 0 ? "session" : owner.slice(0, slash), owner.slice(slash + 1));
  },
  list: async ({ services }) => orderReservations(await services.reservations()),
  nameOf: ({ ownerKind, ownerId }) => `${ownerKind}/${ownerId}`,
  table: (reservations, { nowMs, style }) => buildReservationTable(reservations, nowMs, style),
  record: buildRecord,
};
