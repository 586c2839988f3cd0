import { fillPage, computePageLimit, type Handlers } from "@muster/bus";
import { muster, type ReservationService } from "@muster/proto";
import type { QueueReport } from "../domain/decisions/list-queues.ts";
import { buildOwnerKey } from "../domain/ledger/reservation.ts";
import type { LedgerKeeper } from "../ledger-keeper.ts";
import { toWireExplanation } from "./explanation-messages.ts";
import { makeMachineWriter } from "./machine-messages.ts";
import { toGang, toOwner, toQueueName, toRequest, toWirePool, toWireReservation } from "./messages.ts";
import { toWireQueueState, toWireUsage } from "./queue-messages.ts";

/** Reservations in one page: the default and the maximum. */
const MAX_PAGE_SIZE = 500;
/** Default and maximum number of machines in one page. A page ends earlier if more would not fit into one message. */
const MAX_MACHINES_PAGE_SIZE = 2000;

/** The views beside the ledger that the answers include. */
export type ReportedViews = {
  /** Returns when a pool's scaling was last written; 0: the pool is not scaled. */
  readonly scaledAtMs: (pool: string) => number;
  /** Returns the namespaces that a queue states; undefined for none. The ledger decides without them. */
  readonly namespacesOf: (queue: string) => muster.reservation.v1.LabelSelector | undefined;
};

/** Builds the handlers of ReservationService on the ledger's keeper. */
export function makeHandlers(
  keeper: LedgerKeeper,
  { scaledAtMs, namespacesOf }: ReportedViews,
): Handlers<typeof ReservationService> {
  return {
    reserve: async (message) => ({ reservation: toWireReservation(await keeper.reserve(toRequest(message))) }),
    checkReservation: async (message) => {
      const because = await keeper.check({
        owner: toOwner(message.owner),
        ...toGang(message),
        ...toQueueName(message),
        priority: message.priority,
      });
      return because === undefined ? {} : { because };
    },
    unreserve: async ({ owner, reservationId }) => ({
      released: await keeper.release({ owner: toOwner(owner), reservationId }),
    }),
    ...preemptionHandlers(keeper),
    limitConcurrency: async ({ ownerKind, limit }) => ({ changed: await keeper.limit({ ownerKind, limit }) }),
    getReservation: async ({ owner }) => ({ reservation: toWireReservation(await keeper.get(toOwner(owner))) }),
    listReservations: async ({ ownerKind, limit, continue: after }, { pageBytes }) => {
      const page = await keeper.list({
        kind: emptyIsAbsent(ownerKind),
        after: emptyIsAbsent(after),
        limit: computePageLimit(limit, MAX_PAGE_SIZE),
      });
      const { messages, last, isMore } = fillPage(page.reports, toWireReservation, {
        limit: MAX_PAGE_SIZE,
        bytes: pageBytes,
        encode: (reservation) => muster.reservation.v1.Reservation.encode(reservation).finish(),
      });
      const next = isMore && last !== undefined ? buildOwnerKey(last.reservation.owner) : page.next;
      return { reservations: [...messages], continue: next ?? "", nextSequence: page.nextSequence };
    },
    explainReservation: async ({ owner }) => {
      const { pools, ...explanation } = toWireExplanation(await keeper.explain(toOwner(owner)));
      const scaled = (pools ?? []).map((pool) => ({ ...pool, elasticAtMs: scaledAtMs(pool.pool ?? "") }));
      return { ...explanation, pools: scaled };
    },
    listDemand: async ({ pools, limit }, { pageBytes }) => {
      const { reports, more, rooms } = await keeper.demand({ pools, limit: computePageLimit(limit, MAX_PAGE_SIZE) });
      const { messages } = fillPage(reports, toWireReservation, {
        limit: MAX_PAGE_SIZE,
        bytes: pageBytes,
        encode: (reservation) => muster.reservation.v1.Reservation.encode(reservation).finish(),
      });
      return { reservations: [...messages], more: more + reports.length - messages.length, rooms: [...rooms] };
    },
    listMachines: listMachines(keeper),
    ...queueHandlers(keeper, namespacesOf),
    listPools: async () => ({
      pools: (await keeper.pools()).map((report) => ({
        ...toWirePool(report),
        elasticAtMs: scaledAtMs(report.state.name),
      })),
    }),
  };
}

function preemptionHandlers(
  keeper: LedgerKeeper,
): Pick<Handlers<typeof ReservationService>, "acceptPreemption" | "requeue"> {
  return {
    acceptPreemption: async ({ owner, reservationId }) => {
      const { accepted, report } = await keeper.acceptPreemption({ owner: toOwner(owner), reservationId });
      return { accepted, ...(report && { reservation: toWireReservation(report) }) };
    },
    requeue: async ({ owner, reservationId }) => {
      const report = await keeper.requeue({ owner: toOwner(owner), reservationId });
      return report === undefined ? {} : { reservation: toWireReservation(report) };
    },
  };
}

function listMachines(keeper: LedgerKeeper): Handlers<typeof ReservationService>["listMachines"] {
  return async ({ pool, node, limit, continue: after }, { pageBytes }) => {
    const page = await keeper.machines({
      pool: emptyIsAbsent(pool),
      node: emptyIsAbsent(node),
      after: emptyIsAbsent(after),
      limit: computePageLimit(limit, MAX_MACHINES_PAGE_SIZE),
    });
    const { messages, last, isMore } = fillPage(page.machines, makeMachineWriter(), {
      limit: MAX_MACHINES_PAGE_SIZE,
      bytes: pageBytes,
      encode: (machine) => muster.reservation.v1.MachineState.encode(machine).finish(),
    });
    return { machines: [...messages], continue: (isMore ? last?.node : page.next) ?? "", complete: page.complete };
  };
}

function queueHandlers(
  keeper: LedgerKeeper,
  namespacesOf: ReportedViews["namespacesOf"],
): Pick<Handlers<typeof ReservationService>, "listQueues" | "listUsage"> {
  const { QueueState, QueueUsage } = muster.reservation.v1;
  return {
    listQueues: async (request, { pageBytes }) => {
      const toWire = (report: QueueReport) => toWireQueueState(report, namespacesOf(report.queue.name));
      const { messages, next } = await readQueues(keeper, request, toWire, {
        bytes: pageBytes,
        encode: (state) => QueueState.encode(state).finish(),
      });
      return { queues: messages, continue: next };
    },
    listUsage: async ({ limit, continue: after, queue }, { pageBytes }) => {
      const { messages, next } = await readQueues(keeper, { limit, continue: after, name: queue }, toWireUsage, {
        bytes: pageBytes,
        encode: (usage) => QueueUsage.encode(usage).finish(),
      });
      return { usage: messages, continue: next };
    },
  };
}

/** Returns one page of the queues, each converted by `toWire`. */
async function readQueues<Message>(
  keeper: LedgerKeeper,
  { limit, continue: after, name }: Pick<muster.reservation.v1.ListQueuesRequest, "limit" | "continue" | "name">,
  toWire: (report: QueueReport) => Message,
  size: { readonly bytes: number; readonly encode: (message: Message) => Uint8Array },
): Promise<{ readonly messages: Message[]; readonly next: string }> {
  const page = await keeper.listQueues({
    name: emptyIsAbsent(name),
    after: emptyIsAbsent(after),
    limit: computePageLimit(limit, MAX_PAGE_SIZE),
  });
  const { messages, last, isMore } = fillPage(page.reports, toWire, { limit: MAX_PAGE_SIZE, ...size });
  return { messages: [...messages], next: (isMore ? last?.queue.name : page.next) ?? "" };
}

function emptyIsAbsent(text: string): string | undefined {
  return text === "" ? undefined : text;
}
