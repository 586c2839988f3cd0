import { context, ROOT_CONTEXT, type Context } from "@opentelemetry/api";
import { publishEvent, signalEvent, type Bus } from "@muster/bus";
import { muster, subjects } from "@muster/proto";
import { idOf } from "../domain/ledger/reservation.ts";
import type { News } from "../keeper-deps.ts";
import { toWireReservation } from "./messages.ts";

/** Publishes stored changes, in the background. */
type Announcer = AsyncDisposable & {
  announce(news: News, caller: Context | undefined): void;
};

type AnnouncerDeps = {
  readonly pause: (signal: AbortSignal) => Promise<void>;
  /** How often the connection was lost so far. */
  readonly losses: () => number;
  readonly failed: (news: News, error: unknown) => void;
  /** Called with the number of news that were dropped because too many wait. */
  readonly dropped: (count: number) => void;
};

type Announcement = { readonly news: News; readonly caller: Context | undefined };

const WIRE = {
  preempted: { subject: subjects.reservationPreempted, type: muster.reservation.v1.ReservationPreempted },
  granted: { subject: subjects.reservationGranted, type: muster.reservation.v1.ReservationGranted },
  released: { subject: subjects.reservationReleased, type: muster.reservation.v1.ReservationReleased },
};

/** Sent before the server is asked whether they have arrived: far fewer than it lets wait for a stream. */
const BATCH = 1000;
/** News that wait while it cannot be published. They are hints: beyond this the oldest are given up. */
const MAX_WAITING = 100_000;

/**
 * Publishes news until it is on disk or the announcer is disposed. Only the last one of a batch is acknowledged, which implies all before it unless the
 * connection was lost meanwhile; then all are sent again, and their message ids remove duplicates. A grant that is lost with this process is published by the
 * next leader, which announces every grant that it finds. A lost end is not published again: a query answers that the reservation does not exist.
 */
export function makeAnnouncer(bus: Bus, deps: AnnouncerDeps): Announcer {
  let waiting: Announcement[] = [];
  let working: Promise<void> | undefined;
  const stop = new AbortController();
  const stopped = (): boolean => stop.signal.aborted;

  const work = async (): Promise<void> => {
    // News of one turn is sent in one batch.
    await Promise.resolve();
    while (waiting.length > 0 && !stopped()) {
      const batch = waiting.slice(0, BATCH);
      waiting = waiting.slice(BATCH);
      while (!stopped() && !(await publish(bus, deps, batch)) && !stopped()) await deps.pause(stop.signal);
    }
  };
  const kick = (): void => {
    working ??= work().finally(() => {
      working = undefined;
      if (waiting.length > 0 && !stopped()) kick();
    });
  };
  return {
    announce: (news, caller) => {
      waiting.push({ news, caller });
      if (waiting.length > MAX_WAITING) deps.dropped(waiting.splice(0, BATCH).length);
      kick();
    },
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      // Publishing waits long for a server that is away, and the next lead must not wait for that.
      await Promise.race([working, deps.pause(new AbortController().signal)]);
    },
  };
}

/** Whether all of the batch is known to have arrived. */
async function publish(bus: Bus, deps: AnnouncerDeps, batch: readonly Announcement[]): Promise<boolean> {
  const last = batch.at(-1);
  if (last === undefined) return true;
  const lossesBefore = deps.losses();
  try {
    for (const announcement of batch.slice(0, -1)) {
      const { subject, type, message, messageId } = toEvent(announcement.news);
      signalEvent(bus, subject, type, message, { messageId, trace: announcement.caller ?? ROOT_CONTEXT });
    }
    const { subject, type, message, messageId } = toEvent(last.news);
    await context.with(last.caller ?? ROOT_CONTEXT, () => publishEvent(bus, subject, type, message, { messageId }));
  } catch (error) {
    deps.failed(last.news, error);
    return false;
  }
  return deps.losses() === lossesBefore;
}

function toEvent({ kind, reservation, beneficiary }: News) {
  const { owner, sequence, revision = 0 } = reservation;
  const { subject, type } = WIRE[kind];
  return {
    subject: subject(owner.kind, owner.id),
    type,
    message: { reservation: toWireReservation({ reservation, because: undefined, beneficiary }) },
    messageId: `${idOf(sequence)}-${kind}-${revision}`,
  };
}
