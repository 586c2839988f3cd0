import { randomUUID } from "node:crypto";
import type { Bus, CallOptions, Client } from "@muster/bus";
import { throwFault, unlessMissing } from "@muster/faults";
import { muster, subjects, type ReservationService } from "@muster/proto";
import {
  toWireNeeds,
  readReservation,
  readWaitReason,
  type Need,
  type Reservation,
  type WaitReason,
} from "./reservation.ts";

/** The client of the ledger on the bus. */
export type ReservationCalls = Client<typeof ReservationService>;

type ReserveOptions = CallOptions & {
  /** A higher priority is granted first. */
  readonly priority?: number;
  /** Node label. All machines must be nodes with one value of this label. */
  readonly topology?: string | undefined;
  /** The queue whose quota it uses; absent: no quota limits it. An existing reservation keeps its queue. */
  readonly queue?: string | undefined;
  /** Maximum of concurrently granted reservations of the owner kind. 0: no limit. */
  readonly concurrencyLimit?: number;
  /** The ledger does not preempt it, if its queue permits that. */
  readonly notPreemptible?: boolean;
  /** The owner works without it: it is preempted before other work. */
  readonly beyondMinimum?: boolean;
  /** Milliseconds that the work may take to end after a preemption; default: that of the ledger. */
  readonly graceMs?: number;
};

/** The calls by which owners of one kind hold machines. Each may be repeated, and rejects with FaultError. */
export type LedgerCalls = {
  /**
   * Requests machines, or a position in the queue. Repeating the request returns the same reservation. Rejects with reservation_differs if the owner has one
   * with other needs.
   */
  reserve(ownerId: string, needs: readonly Need[], options?: ReserveOptions): Promise<Reservation>;
  /** Returns why the ledger would queue the request; undefined: it would grant the request. Rejects if the ledger would refuse the request. Stores nothing. */
  check(
    ownerId: string,
    needs: readonly Need[],
    options?: CallOptions & Pick<ReserveOptions, "priority" | "topology" | "queue">,
  ): Promise<WaitReason | undefined>;
  /** Reads the ledger's reservation of the owner now. */
  ask(ownerId: string, options?: CallOptions): Promise<Reservation | undefined>;
  /** Releases exactly this reservation, or its position in the queue. Returns false if it has already ended. */
  release(ownerId: string, reservationId: string, options?: CallOptions): Promise<boolean>;
  /** Call before the owner ends preempted work. Returns the reservation after the call: without an accepted preemption, the work continues. */
  acceptPreemption(ownerId: string, reservationId: string, options?: CallOptions): Promise<Reservation | undefined>;
  /**
   * Call once the preempted work has ended. Releases the machines, and the reservation waits again at its former place. Returns the reservation after the call.
   */
  requeue(ownerId: string, reservationId: string, options?: CallOptions): Promise<Reservation | undefined>;
  /** Lists every reservation of the owner kind, page by page. */
  list(options?: CallOptions): AsyncIterable<ReservationPage>;
};

type OwnerMethods =
  "reserve" | "checkReservation" | "getReservation" | "unreserve" | "acceptPreemption" | "requeue" | "listReservations";

export function makeLedgerCalls(calls: Pick<ReservationCalls, OwnerMethods>, ownerKind: string): LedgerCalls {
  const ownerOf = (id: string) => ({ kind: ownerKind, id });
  return {
    reserve: async (ownerId, needs, { priority = 0, concurrencyLimit = 0, ...more } = {}) => {
      const { topology, queue, notPreemptible, beyondMinimum, graceMs, ...options } = more;
      const request = { requestId: randomUUID(), owner: ownerOf(ownerId), ...toWireNeeds(needs), wait: true };
      const preemption = { notPreemptible, beyondMinimum, graceMs };
      const constraints = { priority, topology, queue, concurrencyLimit, ...preemption };
      const reply = await calls.reserve({ ...request, ...constraints }, options);
      return readReservation(reply.reservation, ownerKind) ?? throwFault({ code: "internal", operation: "reserve" });
    },
    check: async (ownerId, needs, { priority = 0, topology, queue, ...options } = {}) => {
      const request = { owner: ownerOf(ownerId), ...toWireNeeds(needs), priority, topology, queue };
      const { because } = await calls.checkReservation(request, options);
      return readWaitReason(because);
    },
    ask: async (ownerId, options) => {
      const found = await unlessMissing(calls.getReservation({ owner: ownerOf(ownerId) }, options));
      return readReservation(found?.reservation, ownerKind);
    },
    release: async (ownerId, reservationId, options) => {
      const request = { requestId: randomUUID(), owner: ownerOf(ownerId), reservationId };
      return (await calls.unreserve(request, options)).released;
    },
    acceptPreemption: async (ownerId, reservationId, options) => {
      const request = { requestId: randomUUID(), owner: ownerOf(ownerId), reservationId };
      return readReservation((await calls.acceptPreemption(request, options)).reservation, ownerKind);
    },
    requeue: async (ownerId, reservationId, options) => {
      const request = { requestId: randomUUID(), owner: ownerOf(ownerId), reservationId };
      return readReservation((await calls.requeue(request, options)).reservation, ownerKind);
    },
    list: (options) => listReservations(calls, ownerKind, options),
  };
}

const PAGE = 500;

/** One page of a list; `nextSequence` is that of the list's first page. */
type ReservationPage = { readonly reservations: readonly Reservation[]; readonly nextSequence: number };

/** Lists every reservation of the owner kind, page by page. Each call uses the `options`. */
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

type ReservationListener = {
  granted(reservation: Reservation, ownerKind: string): void;
  /** Omitted: the caller does not subscribe to releases. */
  released?(reservation: Reservation, ownerKind: string): void;
  /** Also called when a preemption is withdrawn. Omitted: the caller does not subscribe to preemptions. */
  preempted?(reservation: Reservation, ownerKind: string): void;
};

/** Listens to the ledger's events about the owner kinds, until disposed. These are hints: any of them may be lost. */
export async function listenReservations(
  bus: Pick<Bus, "listen">,
  ownerKinds: readonly string[],
  { granted, released, preempted }: ReservationListener,
): Promise<AsyncDisposable> {
  const { ReservationGranted, ReservationReleased, ReservationPreempted } = muster.reservation.v1;
  await using undo = new AsyncDisposableStack();
  const listen = async (subject: string, type: EventType, notify: ReservationListener["granted"]): Promise<void> => {
    const listening = await bus.listen(subject, ({ payload }) => {
      const message = readEvent(type, payload);
      const ownerKind = message?.owner?.kind ?? "";
      const reservation = ownerKinds.includes(ownerKind) ? readReservation(message, ownerKind) : undefined;
      if (reservation !== undefined) notify(reservation, ownerKind);
    });
    undo.use(listening);
  };
  await listen(subjects.anyReservationGranted, ReservationGranted, granted);
  if (released !== undefined) await listen(subjects.anyReservationReleased, ReservationReleased, released);
  if (preempted !== undefined) await listen(subjects.anyReservationPreempted, ReservationPreempted, preempted);
  return undo.move();
}

type EventType =
  | typeof muster.reservation.v1.ReservationGranted
  | typeof muster.reservation.v1.ReservationReleased
  | typeof muster.reservation.v1.ReservationPreempted;

/** Undefined: the event is unreadable. */
function readEvent(type: EventType, payload: Uint8Array): muster.reservation.v1.Reservation | undefined {
  try {
    return type.decode(payload).reservation;
  } catch {
    return undefined;
  }
}
