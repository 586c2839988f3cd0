import { context, ROOT_CONTEXT, type Context } from "@opentelemetry/api";
import { publishEvent, type Bus } from "@muster/bus";
import { muster, subjects } from "@muster/proto";
import { idOf } from "../domain/reservation.ts";
import type { News } from "../service.ts";
import { toWireReservation } from "./messages.ts";

/** Publishes what is on disk, in the background. */
export type Announcer = AsyncDisposable & {
  announce(news: News, caller: Context | undefined): void;
};

type Announcement = { readonly news: News; readonly caller: Context | undefined };

const WIRE = {
  granted: { subject: subjects.reservationGranted, type: muster.reservation.v1.ReservationGranted },
  released: { subject: subjects.reservationReleased, type: muster.reservation.v1.ReservationReleased },
  expired: { subject: subjects.reservationExpired, type: muster.reservation.v1.ReservationExpired },
};

/** Enough to fill the connection; the rest waits in memory. */
const IN_FLIGHT_MAX = 64;

/**
 * News is published until it is on disk or the announcer is disposed. A grant that is lost then is published by the next leader, which announces every grant that
 * it finds: the message id makes a repeated one vanish. An end that is lost then is not told again: who asks is answered that there is no such reservation.
 */
export function makeAnnouncer(
  bus: Bus,
  deps: {
    readonly pause: (signal: AbortSignal) => Promise<void>;
    readonly failed: (news: News, error: unknown) => void;
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
        deps.failed(next.news, error);
        waiting.push(next);
        await deps.pause(stop.signal);
      }
    }
  };
  return {
    announce: (news, caller) => {
      waiting.push({ news, caller });
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

async function publish(bus: Bus, { news, caller }: Announcement): Promise<void> {
  const { kind, reservation } = news;
  const { owner, sequence } = reservation;
  const { subject, type } = WIRE[kind];
  const message = { reservation: toWireReservation({ reservation, because: undefined }) };
  await context.with(caller ?? ROOT_CONTEXT, () =>
    publishEvent(bus, subject(owner.kind, owner.id), type, message, { messageId: `${idOf(sequence)}-${kind}` }),
  );
}
