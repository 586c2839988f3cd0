import { randomUUID } from "node:crypto";
import type { Bus, CallOptions, Client } from "@muster/bus";
import { muster, subjects, type ReservationService } from "@muster/proto";
import { readReservation, type Reservation } from "./reservation.ts";

/** The calls of the ledger by which owners hold machines. */
export type ReservationCalls = Client<typeof ReservationService>;

const PAGE = 500;

/** One page of a list; `nextSequence` is that of the list's first page. */
type ReservationPage = { readonly reservations: readonly Reservation[]; readonly nextSequence: number };

/** Every reservation of the owner kind, page by page. `options` are those of each call. */
export async function* listReservations(
  calls: Pick<ReservationCalls, "listReservations">,
  ownerKind: string,
  options: CallOptions = {},
): AsyncGenerator<ReservationPage> {
  let nextSequence: number | undefined;
  for (let after = ""; ;) {
    const page = await calls.listReservations({ ownerKind, limit: PAGE, continue: after }, options);
    nextSequence ??= page.nextSequence;
    yield {
      reservations: page.reservations.flatMap((each) => readReservation(each, ownerKind) ?? []),
      nextSequence,
    };
    after = page.continue;
    if (after === "") return;
  }
}

/** Releases exactly this reservation, or its place in the queue. One that is over is no error. */
export async function releaseReservation(
  calls: Pick<ReservationCalls, "unreserve">,
  owner: { readonly kind: string; readonly id: string },
  reservationId: string,
  options: CallOptions = {},
): Promise<void> {
  await calls.unreserve({ requestId: randomUUID(), owner, reservationId }, options);
}

type ReservationListener = {
  granted(reservation: Reservation): void;
  /** Omitted: the caller does not subscribe to releases. */
  released?(reservation: Reservation): void;
};

/** Listens to what the ledger publishes about the owner kind, until disposed. These are hints: any of them may be lost. */
export async function listenReservations(
  bus: Pick<Bus, "listen">,
  ownerKind: string,
  { granted, released }: ReservationListener,
): Promise<AsyncDisposable> {
  const { ReservationGranted, ReservationReleased } = muster.reservation.v1;
  await using undo = new AsyncDisposableStack();
  undo.use(
    await bus.listen(subjects.anyReservationGranted, ({ payload }) => {
      const reservation = readEvent(ReservationGranted, payload, ownerKind);
      if (reservation !== undefined) granted(reservation);
    }),
  );
  if (released !== undefined)
    undo.use(
      await bus.listen(subjects.anyReservationReleased, ({ payload }) => {
        const reservation = readEvent(ReservationReleased, payload, ownerKind);
        if (reservation !== undefined) released(reservation);
      }),
    );
  return undo.move();
}

type EventType = typeof muster.reservation.v1.ReservationGranted | typeof muster.reservation.v1.ReservationReleased;

/** Undefined: the event is about another owner kind, or is unreadable. */
function readEvent(type: EventType, payload: Uint8Array, ownerKind: string): Reservation | undefined {
  try {
    return readReservation(type.decode(payload).reservation, ownerKind);
  } catch {
    return undefined;
  }
}
