import type { EndRequest, Order, Renewal } from "@muster/leases";
import { toWireEnd, toWireOrder, toWireRenewal } from "@muster/leases/wire";
import { enums, LeaseService, type muster } from "@muster/proto";
import type { ServiceLink } from "../kinds/kind.ts";
import { CALL_TIMEOUT_MS, readPages } from "./read-pages.ts";
import {
  toCleanup,
  toCleanupState,
  toEngineLoad,
  toLeaseEvent,
  toLease,
  type EngineIdentity,
  type Lease,
  type LeaseEvent,
} from "./lease-messages.ts";
import { pickFields } from "./message-fields.ts";

/** ORDERED: the lease is new. RESENT: the lease existed, and its result is published again. RETRIED: the lease had failed. */
export type OrderOutcome = "ORDERED" | "RESENT" | "RETRIED";

export type OrderReply = { readonly lease: Lease; readonly outcome: OrderOutcome };

/** An undefined field selects any value. */
export type LeaseFilter = {
  readonly user: string | undefined;
  readonly type: string | undefined;
  readonly phase: string | undefined;
};

/** The timeout is long because the engine scans the whole cluster. */
const CLEANUP_TIMEOUT_MS = 120_000;

/** Limits the orders that one dry run assumes to have begun, and the characters of their data, so that they fit into one message. */
const MAX_BEFORE = 100;
const MAX_BEFORE_CHARACTERS = 256 * 1024;

/** Calls the engines. Every call rejects only with FaultError. */
export function makeLeaseCalls({ client, stop }: Pick<ServiceLink, "client" | "stop">, timeoutMs = CALL_TIMEOUT_MS) {
  const leases = client(LeaseService);
  const options = { timeoutMs, signal: stop };
  const identified = (): { requestId: string } => ({ requestId: crypto.randomUUID() });
  const leaseOf = async (reply: Promise<muster.provision.v1.GetLeaseReply>) => toLease((await reply).lease);
  return {
    order: async (order: Order): Promise<OrderReply> => {
      const reply = await leases.orderLease({ ...identified(), order: toWireOrder(order) }, options);
      return { lease: toLease(reply.lease), outcome: outcomeOf(reply.outcome) };
    },
    /** Rejects as `order` would. Does not predict the outcome of an accepted order. */
    checkOrder: async (order: Order) => {
      const asked = { order: toWireOrder(order), dryRun: true, skipForesight: true };
      await leases.orderLease({ ...identified(), ...asked }, options);
    },
    /** Predicts the answer of `order` after the orders `before`, and orders nothing. */
    tryOrder: async (order: Order, before: readonly Order[]) => {
      const asked = { order: toWireOrder(order), before: selectFittingOrders(before).map(toWireOrder), dryRun: true };
      const reply = await leases.orderLease({ ...identified(), ...asked }, options);
      const { refusedBecause } = reply;
      return { lease: toLease(reply.lease), outcome: outcomeOf(reply.outcome), refusedBecause };
    },
    renew: (renewal: Renewal) =>
      leaseOf(leases.renewLease({ ...identified(), renewal: toWireRenewal(renewal) }, options)),
    end: (request: EndRequest) => leaseOf(leases.endLease({ ...identified(), end: toWireEnd(request) }, options)),
    /** Reads the identity of an engine; an empty id selects any engine. */
    engine: async (engine: string): Promise<EngineIdentity> =>
      pickFields(await leases.getEngine({ engine }, options), "engine", "key"),
    load: async (engine: string) => toEngineLoad(await leases.getCounters({ engine }, options)),
    cleanupState: async (engine: string) => toCleanupState(await leases.getCleanup({ engine }, options)),
    /** Searches for leftovers of leases. `confirm` is the number of objects that may be removed even if records seem to be lost. */
    cleanUp: async (engine: string, dryRun: boolean, confirm: number) => {
      const request = { ...identified(), engine, dryRun, confirm };
      return toCleanup(await leases.cleanupResources(request, { ...options, timeoutMs: CLEANUP_TIMEOUT_MS }));
    },
    get: (id: string) => leaseOf(leases.getLease({ id }, options)),
    list: ({ user = "", type = "", phase }: LeaseFilter) => {
      const query = { user, type, phase: enums.LeasePhase.numberOf(phase ?? "") };
      return readPages((page) => leases.listLeases({ ...query, ...page }, options), "leases", toLease);
    },
    /** Lists the first hundred leases whose records no answering engine can read. */
    unreadable: async () =>
      (await leases.listLeases({ limit: 1 }, options)).unreadable.map((each) => pickFields(each, "id", "because")),
    /** Returns the newest events, sorted from old to new. */
    history: async (id: string, limit: number) => {
      let events: LeaseEvent[] = [];
      let page = "";
      do {
        const query = { id, limit: limit - events.length, continue: page };
        const reply = await leases.listLeaseHistory(query, options);
        events = [...reply.events.map(toLeaseEvent), ...events];
        page = reply.continue;
      } while (page !== "" && events.length < limit);
      return events;
    },
  };
}

export type LeaseCalls = ReturnType<typeof makeLeaseCalls>;

/** Keeps the first orders that fit, because each order comes after the orders that it needs. */
function selectFittingOrders(orders: readonly Order[]): Order[] {
  let characters = 0;
  return orders.slice(0, MAX_BEFORE).filter(({ data }) => (characters += data.length) <= MAX_BEFORE_CHARACTERS);
}

function outcomeOf(word: string): OrderOutcome {
  return word === "RESENT" || word === "RETRIED" ? word : "ORDERED";
}
