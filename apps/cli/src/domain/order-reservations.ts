import type { Reservation } from "../adapters/reservation-messages.ts";

/** Sorts reservations: waiting ones first, by priority and age; then granted ones, the newest grant last. */
export function orderReservations(all: readonly Reservation[]): Reservation[] {
  return [...all].sort(
    (a, b) =>
      Number(a.state === "granted") - Number(b.state === "granted") ||
      (a.state === "granted" ? 0 : b.priority - a.priority) ||
      (a.grantedAtMs ?? a.createdAtMs) - (b.grantedAtMs ?? b.createdAtMs) ||
      (a.id < b.id ? -1 : 1),
  );
}
