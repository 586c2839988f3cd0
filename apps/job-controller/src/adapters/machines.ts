import { randomUUID } from "node:crypto";
import type { Client, NatsBus } from "@muster/bus";
import { describeFault, type Fault, faultOf, unlessMissing } from "@muster/faults";
import { muster, type ReservationService, subjects } from "@muster/proto";
import type { Unit } from "../domain/build-units.ts";
import type { UnitSeen } from "../domain/snapshot.ts";
import { maximaOf, unitOf, type OwnedUnit } from "./messages.ts";
import { unitCache, type UnitCache } from "./unit-cache.ts";

/** What jobs have and wait for in the ledger, as far as this process knows: a cache of the ledger's own list, kept current by hints and by asking again. */
export type Machines = AsyncDisposable & {
  /** Everything of one owner id, in the order of unit ids, and how long it has waited as far as this process has seen it wait. Before the first list nothing is known, and the gang's unit says so. */
  unitsOf(ownerId: string): readonly UnitSeen[];
  /** Owner ids of everything that jobs hold or wait for. */
  ownerIds(): ReadonlySet<string>;
  /** Asks for a unit; being told to wait, and being refused, are answers like any other. Rejects with FaultError when there was none. */
  reserve(unit: Unit, priority: number): Promise<void>;
  /** Gives a unit back, or its place in the queue. Harmless when there is nothing to give back. */
  release(unitId: string): Promise<void>;
  /** The most machines that each pool that the node scaler scales may have; nothing of other pools. Undefined when the ledger does not say. */
  maxima(): Promise<ReadonlyMap<string, number> | undefined>;
  /** Makes the cache equal to what the ledger says now. */
  refresh(signal: AbortSignal): Promise<void>;
  /** Nothing is known until a list that begins after this is complete: hints may have been lost while somebody else gave machines back. */
  distrust(): void;
};

export type MachinesDeps = {
  readonly bus: Pick<NatsBus, "listen">;
  readonly reservations: Client<typeof ReservationService>;
  readonly now: () => number;
  /** Goes only forward, whatever happens to the time of day: how long something waits is counted by it. */
  readonly elapsedMs: () => number;
  /** Called with the owner id after each change. */
  readonly changed: (ownerId: string) => void;
  /** Called once what nobody has is known, too. */
  readonly listed: () => void;
};

const OWNER_KIND = "job";
const PAGE = 500;
/** Whoever checks a manifest waits for it. */
const MAXIMA_TIMEOUT_MS = 2000;
/** Faults with which a request can never be granted as things are. */
const REFUSALS: Partial<Record<Fault["code"], string>> = {
  pool_unknown: "POOL_UNKNOWN",
  pool_capacity: "POOL_CAPACITY",
};

/** Listens for grants and ends from now on. Knows nothing before the first `refresh`. */
export async function openMachines(deps: MachinesDeps): Promise<Machines> {
  const cache = unitCache(deps.changed);
  const listening = await listen(deps, cache);
  let listed = false;
  let terms = 0;
  return {
    unitsOf: (ownerId) => {
      if (!listed) return [{ id: ownerId, state: "unknown" }];
      const aheadMs = deps.now() - deps.elapsedMs();
      return cache
        .ofOwner(ownerId)
        .map((unit) => (unit.state === "granted" ? unit : { ...unit, sinceMs: unit.sinceMs + aheadMs }));
    },
    ownerIds: () => cache.ownerIds(),
    reserve: (unit, priority) => reserve(deps, cache, unit, priority),
    release: async (unitId) => {
      const reservationId = (cache.get(unitId) ?? (await find(deps, unitId)))?.reservationId ?? "";
      const owner = { kind: OWNER_KIND, id: unitId };
      if (reservationId === "") {
        cache.learn(unitId, undefined);
        return;
      }
      await deps.reservations.unreserve({ requestId: randomUUID(), owner, reservationId });
      cache.end(unitId, reservationId);
    },
    maxima: () => readMaxima(deps),
    refresh: async (signal) => {
      const term = terms;
      await list(deps, cache, signal);
      if (term !== terms) return;
      const first = !listed;
      listed = true;
      if (first) deps.listed();
    },
    distrust: () => {
      listed = false;
      terms += 1;
    },
    [Symbol.asyncDispose]: () => listening[Symbol.asyncDispose](),
  };
}

async function listen({ bus, elapsedMs }: MachinesDeps, cache: UnitCache): Promise<AsyncDisposable> {
  const { ReservationGranted, ReservationReleased } = muster.reservation.v1;
  await using undo = new AsyncDisposableStack();
  undo.use(
    await bus.listen(subjects.anyReservationGranted, ({ payload }) => {
      const unit = unitOf(ReservationGranted.decode(payload).reservation, elapsedMs());
      if (unit !== undefined) cache.hear(unit);
    }),
  );
  const ended = (reservation: muster.reservation.v1.Reservation.$Properties | null | undefined): void => {
    const unit = unitOf(reservation, elapsedMs());
    if (unit !== undefined) cache.end(unit.id, unit.reservationId);
  };
  undo.use(
    await bus.listen(subjects.anyReservationReleased, ({ payload }) =>
      ended(ReservationReleased.decode(payload).reservation),
    ),
  );
  return undo.move();
}

async function reserve(deps: MachinesDeps, cache: UnitCache, unit: Unit, priority: number): Promise<void> {
  const owner = { kind: OWNER_KIND, id: unit.id };
  const needs = unit.needs.map(({ component, pool }) => ({ component, pool }));
  try {
    const request = { requestId: randomUUID(), owner, needs, wait: true, priority };
    const { reservation } = await deps.reservations.reserve(request);
    cache.learn(unit.id, unitOf(reservation, deps.elapsedMs()));
  } catch (error) {
    const fault = faultOf(error);
    const code = fault === undefined ? undefined : REFUSALS[fault.code];
    if (fault !== undefined && code !== undefined) {
      const because = { code, text: describeFault(fault) };
      const components = needs.map(({ component }) => component);
      const { id } = unit;
      const refused = { id, reservationId: "", sequence: 0, state: "refused", components, because } as const;
      cache.learn(id, { ...refused, sinceMs: deps.elapsedMs() });
      // What it has instead of what was asked for decides what is done about it.
    } else if (fault?.code === "reservation_differs") cache.learn(unit.id, await find(deps, unit.id));
    else throw error;
  }
}

async function find({ reservations, elapsedMs }: MachinesDeps, unitId: string): Promise<OwnedUnit | undefined> {
  const found = await unlessMissing(reservations.getReservation({ owner: { kind: OWNER_KIND, id: unitId } }));
  return found && unitOf(found.reservation, elapsedMs());
}

async function readMaxima({ reservations }: MachinesDeps): Promise<ReadonlyMap<string, number> | undefined> {
  try {
    return maximaOf((await reservations.listPools({}, { timeoutMs: MAXIMA_TIMEOUT_MS })).pools);
  } catch (error) {
    if (faultOf(error) === undefined) throw error;
    return undefined;
  }
}

async function list({ reservations, elapsedMs }: MachinesDeps, cache: UnitCache, signal: AbortSignal): Promise<void> {
  const listing = cache.beginList();
  // A list that fails half way has not shown that anything is gone.
  let complete: { readonly nextSequence: number } | undefined;
  try {
    let after = "";
    let first: { readonly nextSequence: number } | undefined;
    do {
      const request = { ownerKind: OWNER_KIND, limit: PAGE, continue: after };
      const page = await reservations.listReservations(request, { signal });
      for (const reservation of page.reservations) {
        const unit = unitOf(reservation, elapsedMs());
        if (unit !== undefined) listing.add(unit);
      }
      first ??= { nextSequence: page.nextSequence };
      after = page.continue;
    } while (after !== "");
    complete = first;
  } finally {
    listing.finish(complete);
  }
}
