import fc from "fast-check";
import { expect, it } from "vitest";
import { orderReservations } from "./order-reservations.ts";
import type { Reservation } from "../adapters/reservation-messages.ts";

function reservation(id: string, priority: number, createdAtMs: number, grantedAtMs?: number): Reservation {
  const state = grantedAtMs === undefined ? "waiting" : "granted";
  const owner = { ownerKind: "job", ownerId: id };
  return { id, ...owner, state, needs: [], machines: [], priority, createdAtMs, grantedAtMs, because: undefined };
}

const IN_ORDER = [
  reservation("urgent", 9, 30),
  reservation("older", 0, 10),
  reservation("newer", 0, 20),
  reservation("granted-first", 0, 5, 11),
  reservation("granted-later", 9, 1, 12),
];

it("puts waiting ones first, by priority and age, then granted ones, in whatever order they arrive", () => {
  fc.assert(
    fc.property(fc.shuffledSubarray(IN_ORDER, { minLength: IN_ORDER.length }), (shuffled) => {
      expect(orderReservations(shuffled).map(({ id }) => id)).toEqual(IN_ORDER.map(({ id }) => id));
    }),
  );
});
