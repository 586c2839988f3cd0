import type { Bus } from "@muster/bus";
import { findFault } from "@muster/faults";
import { makeLedgerCache, type LedgerCache, type LedgerCacheOptions, type SeenReservation } from "./ledger-cache.ts";
import { makeLedgerCalls, listenReservations, type LedgerCalls, type ReservationCalls } from "./ledger-calls.ts";
import type { Reservation } from "./reservation.ts";

/** The calls of one owner kind, and a cache of their answers, of events and of lists. */
export type LedgerClient = AsyncDisposable & {
  /** Whether a list that began after the last `invalidate` is complete. Until then, a missing reservation proves nothing. */
  isKnown(): boolean;
  get(ownerId: string): SeenReservation | undefined;
  /** The reservations of the group in the order of owner ids. */
  inGroup(group: string): readonly SeenReservation[];
  groups(): ReadonlySet<string>;
  /** Returns the owner's reservation. If the owner already had one with other needs, returns that one. */
  reserve(...request: Parameters<LedgerCalls["reserve"]>): Promise<Reservation | undefined>;
  release: LedgerCalls["release"];
  acceptPreemption: LedgerCalls["acceptPreemption"];
  requeue: LedgerCalls["requeue"];
  ask: LedgerCalls["ask"];
  /** Makes the cache equal to the ledger. Rejects with FaultError, and keeps the pages read until then. */
  refresh(signal: AbortSignal): Promise<void>;
  /** Called by a new leader, because events may have been lost while another replica released machines. */
  invalidate(): void;
  /** Called with the group after each change; with undefined once everything is known. */
  onChange(listener: (group: string | undefined) => void): () => void;
};

type LedgerClientOptions = Pick<LedgerCacheOptions, "groupOf"> & {
  readonly bus: Pick<Bus, "listen">;
  readonly calls: ReservationCalls;
  readonly ownerKind: string;
  /** Monotonic milliseconds; default: the clock of the process. */
  readonly elapsedMs?: () => number;
};

/** Subscribes to events immediately. Knows no reservation before the first `refresh`. */
export async function openLedgerClient({
  bus,
  calls,
  ownerKind,
  groupOf,
  elapsedMs = () => performance.now(),
}: LedgerClientOptions): Promise<LedgerClient> {
  const listeners = new Set<(group: string | undefined) => void>();
  const notify = (group: string | undefined): void => {
    for (const listener of listeners) listener(group);
  };
  const cache = makeLedgerCache({ groupOf, changed: notify, nowMs: elapsedMs });
  const ledger = makeLedgerCalls(calls, ownerKind);
  const listening = await listenReservations(bus, [ownerKind], {
    granted: cache.put,
    released: cache.end,
    preempted: cache.put,
  });
  let term = 0;
  let isKnown = false;

  const follow = async (ownerId: string, answer: () => Promise<Reservation | undefined>) => {
    const known = cache.get(ownerId);
    const reservation = await answer();
    if (reservation !== undefined) cache.put(reservation);
    // End only the known reservation, because a later one may have been requested meanwhile.
    else if (known !== undefined) cache.end(known);
    return reservation;
  };
  const ask: LedgerCalls["ask"] = (ownerId, options) => follow(ownerId, () => ledger.ask(ownerId, options));

  return {
    isKnown: () => isKnown,
    get: cache.get,
    inGroup: cache.inGroup,
    groups: cache.groups,
    reserve: async (ownerId, needs, options) => {
      try {
        const reservation = await ledger.reserve(ownerId, needs, options);
        cache.put(reservation);
        return reservation;
      } catch (error) {
        if (findFault(error)?.code === "reservation_differs") return ask(ownerId);
        throw error;
      }
    },
    release: async (ownerId, id, options) => {
      const known = cache.get(ownerId);
      const isReleased = await ledger.release(ownerId, id, options);
      cache.end({ ownerId, id, sequence: known?.id === id ? known.sequence : 0 });
      return isReleased;
    },
    acceptPreemption: (ownerId, id, options) => follow(ownerId, () => ledger.acceptPreemption(ownerId, id, options)),
    requeue: (ownerId, id, options) => follow(ownerId, () => ledger.requeue(ownerId, id, options)),
    ask,
    refresh: async (signal) => {
      const begunTerm = term;
      await list(cache, ledger.list({ signal }));
      if (begunTerm !== term || isKnown) return;
      isKnown = true;
      notify(undefined);
    },
    invalidate: () => {
      isKnown = false;
      term += 1;
    },
    onChange: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    [Symbol.asyncDispose]: () => listening[Symbol.asyncDispose](),
  };
}

/** Reads the list into the cache. A list that fails before its last page proves no end of a reservation. */
async function list(cache: LedgerCache, pages: ReturnType<LedgerCalls["list"]>): Promise<void> {
  const listing = cache.beginList();
  const listed: Reservation[] = [];
  let nextSequence: number | undefined;
  let complete: number | undefined;
  try {
    for await (const page of pages) {
      listed.push(...page.reservations);
      nextSequence = page.nextSequence;
    }
    complete = nextSequence;
  } finally {
    listing.finish(listed, complete);
  }
}
