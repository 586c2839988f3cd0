import { context, ROOT_CONTEXT, type Context } from "@opentelemetry/api";
import { publishEvent, type Bus } from "@muster/bus";
import { muster, subjects } from "@muster/proto";
import { idOf, type Reservation } from "../domain/reservation.ts";
import { toWireReservation } from "./messages.ts";

/** Publishes grants that are on disk, in the background. */
export type Announcer = AsyncDisposable & {
  announce(reservation: Reservation, caller: Context | undefined): void;
};

type Announcement = { readonly reservation: Reservation; readonly caller: Context | undefined };

/** Enough to fill the connection; the rest waits in memory, at most one a granted reservation. */
const IN_FLIGHT_MAX = 64;

/**
 * A grant is published until it is on disk or the announcer is disposed. What is lost then is published by the next leader, which announces every grant that it
 * finds: the message id makes a repeated one vanish.
 */
export function makeAnnouncer(
  bus: Bus,
  deps: {
    readonly pause: (signal: AbortSignal) => Promise<void>;
    readonly failed: (reservation: Reservation, error: unknown) => void;
  },
): Announcer {
  const waiting: Announcement[] = [];
  const workers = new Set<Promise<void>>();
  const stop = new AbortController();

  const work = async (): Promise<void> => {
    for (let next = waiting.shift(); next !== undefined && !stop.signal.aborted; next = waiting.shift()) {
      try {
        await publish(bus, next);
      } catch (error) {
        deps.failed(next.reservation, error);
        waiting.push(next);
        await deps.pause(stop.signal);
      }
    }
  };
  return {
    announce: (reservation, caller) => {
      waiting.push({ reservation, caller });
      if (workers.size >= IN_FLIGHT_MAX) return;
      const worker = work().finally(() => workers.delete(worker));
      workers.add(worker);
    },
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await Promise.all(workers);
    },
  };
}

async function publish(bus: Bus, { reservation, caller }: Announcement): Promise<void> {
  const { owner, sequence } = reservation;
  const message = { reservation: toWireReservation({ reservation, because: undefined }) };
  await context.with(caller ?? ROOT_CONTEXT, () =>
    publishEvent(
      bus,
      subjects.reservationGranted(owner.kind, owner.id),
      muster.reservation.v1.ReservationGranted,
      message,
      { messageId: `${idOf(sequence)}-granted` },
    ),
  );
}
