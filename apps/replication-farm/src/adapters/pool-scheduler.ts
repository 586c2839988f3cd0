import { computeBackoffMs } from "@muster/backoff";
import type { Bus } from "@muster/bus";
import { runPeriodically } from "@muster/controller";
import { describeFault, type Fault, findFault } from "@muster/faults";
import { openLedgerClient, type Reservation, type ReservationCalls } from "@muster/ledger-client";
import { OWNER_KIND } from "../domain/build-pod.ts";
import type { OwnedReservation } from "../domain/plan-allocation.ts";
import { buildMachineOwner, readMachineOwner } from "../domain/plan-set-machines.ts";
import type { SetTrouble } from "../domain/replica-set.ts";
import type { MachineState } from "../domain/set-snapshot.ts";
import { toMachineState } from "./messages.ts";

/** The machines that the ledger grants to sets, as far as this process knows from lists, hints and answers. */
export type PoolScheduler = AsyncDisposable & {
  /** Machines by number; undefined until the first list of the ledger is complete. */
  machinesOf(set: string): ReadonlyMap<number, MachineState> | undefined;
  /** Requests one machine in this queue, or a place in it. The same number again is the same request. Rejects with FaultError. */
  allocate(set: string, number: number, pool: string, queue: string | undefined): Promise<void>;
  /** Releases exactly this reservation, or its place in the queue; a reservation that is over is no error. Rejects with FaultError. */
  deallocate(owned: OwnedReservation): Promise<void>;
  /** Reads the state of the number in the ledger now; undefined: none. Rejects with FaultError. */
  ask(set: string, number: number): Promise<MachineState | undefined>;
  /** All reservations for sets, from the ledger now. Rejects with FaultError. */
  list(signal: AbortSignal): Promise<OwnedReservation[]>;
  /** The names of all pools; undefined: the ledger does not answer, or knows no pool yet. */
  pools(): Promise<readonly string[] | undefined>;
  /** Why the state of the ledger is unknown; undefined: it is known, or was not requested yet. */
  trouble(): Omit<SetTrouble, "sinceMs"> | undefined;
  /** Called with the name of a set after each change of its machines; undefined: of any set. */
  onChange(listener: (set: string | undefined) => void): () => void;
  /** Calls the listeners: something about any set has changed. */
  notify(): void;
};

type PoolSchedulerDeps = {
  readonly bus: Pick<Bus, "listen">;
  readonly calls: ReservationCalls;
  readonly refreshMs: number;
  readonly onProblem: (error: unknown, retryInMs: number) => void;
};

/** The component of the one machine in a reservation. */
const COMPONENT = "replica";
/** Maximum time that a client's request waits for the pool names of the ledger. */
const POOLS_TIMEOUT_MS = 2000;
const RETRY = { firstMs: 1000, maxMs: 30_000 };

/** Listens to the ledger, and lists its reservations for sets in every period. */
export async function openPoolScheduler(deps: PoolSchedulerDeps): Promise<PoolScheduler> {
  const { bus, calls } = deps;
  await using undo = new AsyncDisposableStack();
  const groupOf = (ownerId: string): string => readMachineOwner(ownerId)?.set ?? "";
  const ledger = undo.use(await openLedgerClient({ bus, calls, ownerKind: OWNER_KIND, groupOf }));
  const listeners = new Set<(set: string | undefined) => void>();
  const notify = (set: string | undefined): void => {
    for (const listener of listeners) listener(set);
  };
  ledger.onChange(notify);
  let fault: Fault | undefined;
  const stopping = new AbortController();
  const following = runPeriodically({
    name: "replica-set-ledger",
    work: async () => {
      await ledger.refresh(stopping.signal);
      fault = undefined;
    },
    everyMs: deps.refreshMs,
    retry: RETRY,
    onError: (error, failures) => {
      fault = findFault(error);
      if (fault === undefined) throw error;
      const retryInMs = computeBackoffMs(failures, RETRY, () => 1);
      deps.onProblem(error, retryInMs);
      notify(undefined);
    },
    stop: stopping.signal,
  });
  undo.defer(() => {
    stopping.abort();
    return following;
  });
  const opened = undo.move();
  return {
    machinesOf: (set) => (ledger.isKnown() ? new Map(ledger.inGroup(set).map(toNumbered)) : undefined),
    allocate: async (set, number, pool, queue) => {
      // Another reservation under this owner is released like every reservation that the record lacks.
      await ledger.reserve(buildMachineOwner(set, number), [{ component: COMPONENT, pool }], { queue });
    },
    deallocate: async ({ set, number, reservation }) => {
      await ledger.release(buildMachineOwner(set, number), reservation);
    },
    ask: async (set, number) => {
      const found = await ledger.ask(buildMachineOwner(set, number));
      return found && toMachineState(found);
    },
    list: async (signal) => {
      await ledger.refresh(signal);
      const owned = [...ledger.groups()].flatMap((set) => ledger.inGroup(set));
      return owned.flatMap(({ ownerId, id }) => {
        const of = readMachineOwner(ownerId);
        return of === undefined ? [] : { ...of, reservation: id };
      });
    },
    pools: () => readPools(calls),
    trouble: () => fault && { code: "LEDGER_AWAY", message: `the ledger does not answer: ${describeFault(fault)}` },
    notify: () => notify(undefined),
    onChange: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}

/** Returns the number and the state of the machine; the owner of the reservation is a set. */
function toNumbered(reservation: Reservation): readonly [number, MachineState] {
  return [readMachineOwner(reservation.ownerId)?.number ?? 0, toMachineState(reservation)];
}

async function readPools(calls: Pick<ReservationCalls, "listPools">): Promise<readonly string[] | undefined> {
  try {
    const { pools } = await calls.listPools({}, { timeoutMs: POOLS_TIMEOUT_MS });
    return pools.length === 0 ? undefined : pools.map(({ name }) => name);
  } catch (error) {
    if (findFault(error) === undefined) throw error;
    return undefined;
  }
}
