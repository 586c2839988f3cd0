import { randomUUID } from "node:crypto";
import { backoffMs, pause } from "@muster/backoff";
import type { Client, NatsBus } from "@muster/bus";
import { describeFault, type Fault, faultOf, unlessMissing } from "@muster/faults";
import { muster, subjects, type ReservationService } from "@muster/proto";
import { OWNER_KIND } from "../domain/build-pod.ts";
import type { OwnedReservation } from "../domain/plan-allocation.ts";
import { machineOwnerOf } from "../domain/plan-machines.ts";
import type { Trouble } from "../domain/replica-set.ts";
import type { MachineSight } from "../domain/set-snapshot.ts";
import { toToldReservation, type ToldReservation } from "./messages.ts";

/** The machines of pools, which the ledger gives to sets: what it has for them as far as this process knows, from its lists, its hints and its answers. */
export type PoolScheduler = AsyncDisposable & {
  /** By number. Undefined: the ledger has not told everything yet. */
  machinesOf(set: string): ReadonlyMap<number, MachineSight> | undefined;
  /** Asks for one machine, or for a place in the queue. The same number again is the same request. Rejects with FaultError. */
  allocate(set: string, number: number, pool: string): Promise<void>;
  /** Gives back exactly this reservation, or its place in the queue; one that is over is no error. Rejects with FaultError. */
  deallocate(owned: OwnedReservation): Promise<void>;
  /** What the ledger itself has under the number now; undefined: nothing. Rejects with FaultError. */
  ask(set: string, number: number): Promise<MachineSight | undefined>;
  /** Everything that is reserved for sets, as the ledger itself says now. Rejects with FaultError. */
  list(signal: AbortSignal): Promise<OwnedReservation[]>;
  /** Names of all pools; undefined: the ledger does not say, or has seen none yet. */
  pools(): Promise<readonly string[] | undefined>;
  /** Why nothing is known; undefined: it is known, or nobody has tried yet. */
  trouble(): Omit<Trouble, "sinceMs"> | undefined;
  /** Called with the name of a set after each change of what is known for it; undefined: of any. */
  onChange(listener: (set: string | undefined) => void): () => void;
};

export type PoolSchedulerDeps = {
  readonly bus: Pick<NatsBus, "listen">;
  readonly reservations: Client<typeof ReservationService>;
  readonly refreshMs: number;
  readonly onProblem: (error: unknown, retryInMs: number) => void;
};

const PAGE = 500;
/** Of one machine among the needs of its reservation. */
const COMPONENT = "replica";
/** A request is answered without what the ledger says rather than late. */
const POOLS_TIMEOUT_MS = 2000;
const RETRY = { firstMs: 1000, mostMs: 30_000 };
/** Reservations whose end is remembered: hints are late by moments, and lists by seconds. */
const ENDED_MOST = 10_000;

/** Listens to the ledger and lists what it has for sets, again and again. */
export async function openPoolScheduler(deps: PoolSchedulerDeps): Promise<PoolScheduler> {
  const { reservations } = deps;
  const cache = openCache();
  await using undo = new AsyncDisposableStack();
  const stopping = new AbortController();
  await listen(deps.bus, cache, undo);
  let fault: Fault | undefined;
  const isStopping = (): boolean => stopping.signal.aborted;
  const follow = async (): Promise<void> => {
    for (let failures = 0; !isStopping();) {
      try {
        const learnt = cache.beginList();
        cache.replace(learnt, await list(reservations, stopping.signal));
        failures = 0;
        fault = undefined;
      } catch (error) {
        if (isStopping()) return;
        const problem = faultOf(error);
        if (problem === undefined) throw error;
        fault = problem;
        failures += 1;
        deps.onProblem(
          error,
          backoffMs(failures, RETRY, () => 1),
        );
        cache.tell(undefined);
      }
      await pause(failures === 0 ? deps.refreshMs : backoffMs(failures, RETRY), stopping.signal);
    }
  };
  const following = follow();
  undo.defer(() => {
    stopping.abort();
    return following;
  });
  const opened = undo.move();
  return {
    machinesOf: cache.machinesOf,
    allocate: async (set, number, pool) => {
      const owner = { kind: OWNER_KIND, id: machineOwnerOf(set, number) };
      const request = { requestId: randomUUID(), owner, needs: [{ component: COMPONENT, pool }], wait: true };
      try {
        cache.learn((await reservations.reserve(request)).reservation);
      } catch (error) {
        if (faultOf(error)?.code !== "reservation_differs") throw error;
        // What is there instead is given back like anything else that is not wanted.
        cache.learn((await reservations.getReservation({ owner })).reservation);
      }
    },
    deallocate: async ({ set, number, reservation: reservationId }) => {
      const owner = { kind: OWNER_KIND, id: machineOwnerOf(set, number) };
      await reservations.unreserve({ requestId: randomUUID(), owner, reservationId });
      cache.end({ set, number, reservation: reservationId });
    },
    ask: async (set, number) => {
      const owner = { kind: OWNER_KIND, id: machineOwnerOf(set, number) };
      const found = await unlessMissing(reservations.getReservation({ owner }));
      if (found === undefined) return undefined;
      cache.learn(found.reservation);
      return toToldReservation(found.reservation)?.sight;
    },
    list: async (signal) =>
      (await list(reservations, signal)).map(({ set, number, sight: { reservation } }) => ({
        set,
        number,
        reservation,
      })),
    pools: () => readPools(reservations),
    trouble: () => fault && { code: "LEDGER_AWAY", message: `the ledger does not answer: ${describeFault(fault)}` },
    onChange: cache.onChange,
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}

async function readPools(reservations: Client<typeof ReservationService>): Promise<readonly string[] | undefined> {
  try {
    const { pools } = await reservations.listPools({}, { timeoutMs: POOLS_TIMEOUT_MS });
    return pools.length === 0 ? undefined : pools.map(({ name }) => name ?? "");
  } catch (error) {
    if (faultOf(error) === undefined) throw error;
    return undefined;
  }
}

async function listen(bus: Pick<NatsBus, "listen">, cache: Cache, undo: AsyncDisposableStack): Promise<void> {
  const { ReservationGranted, ReservationReleased } = muster.reservation.v1;
  undo.use(
    await bus.listen(subjects.anyReservationGranted, ({ payload }) =>
      cache.learn(ReservationGranted.decode(payload).reservation),
    ),
  );
  const ended = (reservation: Parameters<typeof toToldReservation>[0]): void => {
    const told = toToldReservation(reservation);
    if (told !== undefined) cache.end({ ...told, reservation: told.sight.reservation });
  };
  undo.use(
    await bus.listen(subjects.anyReservationReleased, ({ payload }) =>
      ended(ReservationReleased.decode(payload).reservation),
    ),
  );
}

async function list(reservations: Client<typeof ReservationService>, signal: AbortSignal): Promise<ToldReservation[]> {
  const told: ToldReservation[] = [];
  for (let after = ""; ;) {
    const page = await reservations.listReservations(
      { ownerKind: OWNER_KIND, limit: PAGE, continue: after },
      { signal },
    );
    told.push(...page.reservations.flatMap((reservation) => toToldReservation(reservation) ?? []));
    after = page.continue;
    if (after === "") return told;
  }
}

type Cache = ReturnType<typeof openCache>;
type Machines = ReadonlyMap<number, ToldReservation["sight"]>;

function openCache() {
  let bySet = new Map<string, Map<number, ToldReservation["sight"]>>();
  let listed = false;
  /** Learnt while a list was under way, which may not have it yet. */
  let sinceList = new Set<string>();
  const ended = new Set<string>();
  const listeners = new Set<(set: string | undefined) => void>();
  const tell = (set: string | undefined): void => {
    for (const listener of listeners) listener(set);
  };
  /** False: nothing that is not known, or what is over. */
  const put = (told: ToldReservation): boolean => {
    const { set, number, sight } = told;
    if (ended.has(keyOf({ set, number, reservation: sight.reservation }))) return false;
    const machines = bySet.get(set) ?? new Map<number, ToldReservation["sight"]>();
    const before = machines.get(number);
    // A hint of the grant may come before the answer that it waits.
    if (before?.is === "granted" && before.reservation === sight.reservation) return false;
    bySet.set(set, machines.set(number, sight));
    return JSON.stringify(before) !== JSON.stringify(sight);
  };
  return {
    tell,
    machinesOf: (set: string): ReadonlyMap<number, MachineSight> | undefined =>
      listed ? (bySet.get(set) ?? new Map<number, MachineSight>()) : undefined,
    learn: (reservation: Parameters<typeof toToldReservation>[0]): void => {
      const told = toToldReservation(reservation);
      if (told === undefined) return;
      sinceList.add(machineOwnerOf(told.set, told.number));
      if (put(told)) tell(told.set);
    },
    end: (over: OwnedReservation): void => {
      ended.add(keyOf(over));
      const oldest = ended.size > ENDED_MOST ? ended.values().next().value : undefined;
      if (oldest !== undefined) ended.delete(oldest);
      const machines = bySet.get(over.set);
      const known = machines?.get(over.number);
      if (known?.reservation !== over.reservation) return;
      machines?.delete(over.number);
      tell(over.set);
    },
    /** What is learnt from now on. */
    beginList: (): ReadonlySet<string> => (sinceList = new Set()),
    /** What was not listed, and not learnt since the list began, is not there. */
    replace: (learnt: ReadonlySet<string>, told: readonly ToldReservation[]): void => {
      const before = bySet;
      bySet = new Map();
      for (const [set, machines] of before)
        for (const [number, sight] of machines)
          if (learnt.has(machineOwnerOf(set, number))) put({ set, number, sight });
      for (const each of told) if (!learnt.has(machineOwnerOf(each.set, each.number))) put(each);
      const first = !listed;
      listed = true;
      if (first) tell(undefined);
      else
        for (const set of new Set([...before.keys(), ...bySet.keys()]))
          if (!isSame(before.get(set), bySet.get(set))) tell(set);
    },
    onChange: (listener: (set: string | undefined) => void): (() => void) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

function isSame(before: Machines = new Map(), after: Machines = new Map()): boolean {
  const inOrder = (machines: Machines): string => JSON.stringify([...machines].toSorted(([a], [b]) => a - b));
  return inOrder(before) === inOrder(after);
}

function keyOf({ set, number, reservation }: OwnedReservation): string {
  return `${set} ${number} ${reservation}`;
}
