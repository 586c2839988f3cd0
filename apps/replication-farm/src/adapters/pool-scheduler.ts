import { backoffMs, pause } from "@muster/backoff";
import type { Bus } from "@muster/bus";
import { describeFault, type Fault, faultOf } from "@muster/faults";
import { openLedgerClient, type Reservation, type ReservationCalls } from "@muster/ledger-client";
import { OWNER_KIND } from "../domain/build-pod.ts";
import type { OwnedReservation } from "../domain/plan-allocation.ts";
import { machineOwnerOf, readMachineOwner } from "../domain/plan-machines.ts";
import type { Trouble } from "../domain/replica-set.ts";
import type { MachineSight } from "../domain/set-snapshot.ts";
import { machineSight } from "./messages.ts";

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
  readonly bus: Pick<Bus, "listen">;
  readonly calls: ReservationCalls;
  readonly refreshMs: number;
  readonly onProblem: (error: unknown, retryInMs: number) => void;
};

/** Of one machine among the needs of its reservation. */
const COMPONENT = "replica";
/** A request is answered without what the ledger says rather than late. */
const POOLS_TIMEOUT_MS = 2000;
const RETRY = { firstMs: 1000, maxMs: 30_000 };

/** Listens to the ledger, and lists what it has for sets in every period. */
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
  const isStopping = (): boolean => stopping.signal.aborted;
  const follow = async (): Promise<void> => {
    for (let failures = 0; !isStopping();) {
      try {
        await ledger.refresh(stopping.signal);
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
        notify(undefined);
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
    machinesOf: (set) => (ledger.isKnown() ? new Map(ledger.inGroup(set).map(toNumbered)) : undefined),
    allocate: async (set, number, pool) => {
      // What the ledger has instead is released like anything else that is not in the record.
      await ledger.reserve(machineOwnerOf(set, number), [{ component: COMPONENT, pool }]);
    },
    deallocate: ({ set, number, reservation }) => ledger.release(machineOwnerOf(set, number), reservation),
    ask: async (set, number) => {
      const found = await ledger.ask(machineOwnerOf(set, number));
      return found && machineSight(found);
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
    onChange: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}

/** By the number of the machine; the owner is of a group that is a set. */
function toNumbered(reservation: Reservation): readonly [number, MachineSight] {
  return [readMachineOwner(reservation.ownerId)?.number ?? 0, machineSight(reservation)];
}

async function readPools(calls: Pick<ReservationCalls, "listPools">): Promise<readonly string[] | undefined> {
  try {
    const { pools } = await calls.listPools({}, { timeoutMs: POOLS_TIMEOUT_MS });
    return pools.length === 0 ? undefined : pools.map(({ name }) => name);
  } catch (error) {
    if (faultOf(error) === undefined) throw error;
    return undefined;
  }
}
