import { context, ROOT_CONTEXT, type Context } from "@opentelemetry/api";
import { publishEvent, publishSignal, type Bus } from "@muster/bus";
import { muster, subjects } from "@muster/proto";
import { getReservationId } from "../domain/ledger/reservation.ts";
import type { ReservationChange } from "../keeper-deps.ts";
import { toWireReservation } from "./messages.ts";

/** Publishes stored changes, in the background. */
type Announcer = AsyncDisposable & {
  announce(news: ReservationChange, caller: Context | undefined): void;
};

type AnnouncerDeps = {
  readonly pause: (signal: AbortSignal) => Promise<void>;
  /** Connection losses since the process started. */
  readonly losses: () => number;
  readonly failed: (news: ReservationChange, error: unknown) => void;
  /** Receives the number of events that were dropped because more than `MAX_WAITING` were queued. */
  readonly dropped: (count: number) => void;
};

type Announcement = { readonly news: ReservationChange; readonly caller: Context | undefined };

const WIRE = {
  preempted: { subject: subjects.reservationPreempted, type: muster.reservation.v1.ReservationPreempted },
  granted: { subject: subjects.reservationGranted, type: muster.reservation.v1.ReservationGranted },
  released: { subject: subjects.reservationReleased, type: muster.reservation.v1.ReservationReleased },
};

/** Events per batch. Only the last event is acknowledged. The number is well below the server's limit of pending messages per stream. */
const BATCH = 1000;
/** Limit of queued events while NATS is unreachable. They are hints, so the oldest are dropped beyond it. */
const MAX_WAITING = 100_000;

/**
 * Publishes events that are on disk, until the announcer is disposed. The acknowledgement of a batch's last message confirms the whole batch, unless the
 * connection was lost meanwhile. Then the announcer sends the batch again, and message ids remove duplicates. The next leader announces every grant that it
 * finds, so no grant is lost with this process. A lost release is not republished: a query answers that the reservation does not exist.
 */
export function makeAnnouncer(bus: Bus, deps: AnnouncerDeps): Announcer {
  let waiting: Announcement[] = [];
  let working: Promise<void> | undefined;
  const stop = new AbortController();
  const stopped = (): boolean => stop.signal.aborted;

  const work = async (): Promise<void> => {
    // Wait for the end of the turn, so that its events share one batch.
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
      // Publishing to an unreachable server blocks for long, and the next leadership must not wait for it.
      await Promise.race([working, deps.pause(new AbortController().signal)]);
    },
  };
}

/** Returns whether the server confirmed the whole batch. */
async function publish(bus: Bus, deps: AnnouncerDeps, batch: readonly Announcement[]): Promise<boolean> {
  const last = batch.at(-1);
  if (last === undefined) return true;
  const lossesBefore = deps.losses();
  try {
    for (const announcement of batch.slice(0, -1)) {
      const { subject, type, message, messageId } = toEvent(announcement.news);
      publishSignal(bus, subject, type, message, { messageId, trace: announcement.caller ?? ROOT_CONTEXT });
    }
    const { subject, type, message, messageId } = toEvent(last.news);
    await context.with(last.caller ?? ROOT_CONTEXT, () => publishEvent(bus, subject, type, message, { messageId }));
  } catch (error) {
    deps.failed(last.news, error);
    return false;
  }
  return deps.losses() === lossesBefore;
}

function toEvent({ kind, reservation, beneficiary }: ReservationChange) {
  const { owner, sequence, revision = 0 } = reservation;
  const { subject, type } = WIRE[kind];
  return {
    subject: subject(owner.kind, owner.id),
    type,
    message: { reservation: toWireReservation({ reservation, because: undefined, beneficiary }) },
    messageId: `${getReservationId(sequence)}-${kind}-${revision}`,
  };
}
