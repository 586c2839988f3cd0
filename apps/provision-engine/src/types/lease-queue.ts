import { describeFault, findFault, throwFault } from "@muster/faults";
import { describeQueueWait } from "@muster/ledger-client/describe-queue-wait";
import type { LedgerCalls, Need, Reservation, ReservationCalls } from "@muster/ledger-client";

/** The request of one lease for machines. */
export type MachineRequest = { readonly owner: string; readonly pool: string; readonly needs: readonly Need[] };

/** Gets machines for leases in the queue of the engine. */
export type LeaseQueue = {
  /**
   * Requests the machines, or a place in the queue. A request that waits in another queue, because the setting has changed, is repeated in the new one. Granted
   * machines keep the queue of their request. Rejects with unavailable while the lease has no queue.
   */
  readonly reserve: (request: MachineRequest, signal: AbortSignal) => Promise<Reservation>;
  /** Rejects with the fault with which the ledger would refuse the request. */
  readonly check: (request: MachineRequest, signal: AbortSignal) => Promise<void>;
  /** Explains why the lease has no queue; undefined: it has a queue, or needs none. */
  readonly whyNone: (request: MachineRequest, signal: AbortSignal) => Promise<string | undefined>;
};

const UNSET = "Queues exist, and PROVISION_QUEUE of the provision-engine names none for leases of machines";

/** `queue`: the engine's setting. Without it, leases need no queue as long as no Queue exists. */
export function makeLeaseQueue(
  ledger: Pick<LedgerCalls, "reserve" | "check" | "ask" | "release"> & Pick<ReservationCalls, "listQueues">,
  queue: string | undefined,
): LeaseQueue {
  const hasQueues = async (signal: AbortSignal): Promise<boolean> =>
    (await ledger.listQueues({ limit: 1 }, { signal })).queues.length > 0;
  const check: LeaseQueue["check"] = async ({ owner, needs }, signal) => {
    await ledger.check(owner, needs, { signal, queue });
  };
  return {
    check,
    whyNone: async (request, signal) => {
      if (queue === undefined) return (await hasQueues(signal)) ? UNSET : undefined;
      return check(request, signal).then(() => undefined, whyUnknown);
    },
    reserve: async ({ owner, needs }, signal) => {
      if (queue === undefined && (await hasQueues(signal))) {
        const found = await ledger.ask(owner, { signal });
        if (found?.state === "granted") return found;
        if (found !== undefined) await ledger.release(owner, found.id, { signal });
        return throwNoQueue(UNSET);
      }
      const request = async (): Promise<Reservation> =>
        ledger.reserve(owner, needs, { signal, queue }).catch(orNoQueue);
      const found = await request();
      if (found.state === "granted" || found.queue === queue) return found;
      await ledger.release(owner, found.id, { signal });
      return request();
    },
  };
}

/** Describes the wait of a reservation for its queue; undefined: the reservation waits for machines. */
export function findQueueWait(reservation: Reservation): string | undefined {
  return reservation.state === "waiting" && reservation.because !== undefined
    ? describeQueueWait(reservation.because)
    : undefined;
}

/** The order waits instead of failing, because an operator can correct the setting or the queue. */
function throwNoQueue(why: string): never {
  return throwFault({ code: "unavailable", dependency: `a queue for the lease (${why})`, retryAfterMs: 0 });
}

function orNoQueue(error: unknown): never {
  const why = whyUnknown(error);
  if (why === undefined) throw error;
  return throwNoQueue(why);
}

/** Describes the fault of an unknown queue; undefined for any other fault. */
function whyUnknown(error: unknown): string | undefined {
  const fault = findFault(error);
  return fault?.code === "queue_unknown"
    ? `PROVISION_QUEUE of the provision-engine: ${describeFault(fault)}`
    : undefined;
}
