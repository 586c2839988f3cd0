import { type Handlers, type NatsBus, serveMethods } from "@muster/bus";
import { throwFault } from "@muster/faults";
import { muster, ReservationService, subjects } from "@muster/proto";

const { Machine, Need, Preemption, Reservation, ReservationPreempted, ReservationState, Share, WaitReason } =
  muster.reservation.v1;
type Reservation = muster.reservation.v1.Reservation;
type Need = muster.reservation.v1.Need;
type Queue = muster.reservation.v1.Queue;
type Owner = muster.common.v1.Owner.$Properties | null | undefined;

type TestNode = { readonly name: string; readonly pool: string };

/** A ledger in memory that follows the contract and counts only cpu of parts. It publishes only preemptions, so clients list its reservations. */
export type ContractLedger = AsyncDisposable & {
  /** Preempts the granted reservation of this job with this deadline, and publishes the preemption. Once requeued, the job waits until `readmit`. */
  preempt(job: string, deadlineMs: number): void;
  /** Withdraws the preemption of this job without a notification: its owner asks the ledger. */
  withdraw(job: string): void;
  /** Counts the answers to owners that their preemption is withdrawn. */
  spared(): number;
  /** Grants the preempted and requeued reservations. */
  readmit(): Promise<void>;
  /** From now on, grants the first node of a pool, whatever other owners hold on it. */
  ignoreHolders(): void;
};

/** Each machine has this many millicores of cpu. */
const MACHINE_CPU = 1000;

/** Starts the ledger. `readQueues` reads the queues of the bucket. A queue that is held or has a problem admits nothing; the ledger applies no quotas. */
export async function openContractLedger(
  bus: NatsBus,
  listNodes: () => Promise<readonly TestNode[]>,
  readQueues: () => Promise<readonly Queue[]> = () => Promise.resolve([]),
): Promise<ContractLedger> {
  const reservations = new Map<string, Reservation>();
  /** The keys of reservations that wait for `readmit`. */
  const requeued = new Set<string>();
  let sequence = 0;
  let spared = 0;
  let ignoresHolders = false;

  const findNode = (need: Need, nodes: readonly TestNode[], taken: readonly { node: string; cpu: number }[]) =>
    nodes.find(({ name, pool }) => {
      const used = taken.reduce((sum, each) => sum + (each.node === name ? each.cpu : 0), 0);
      return pool === need.pool && (ignoresHolders || used + cpuOf(need) <= MACHINE_CPU);
    });

  const grant = (reservation: Reservation, nodes: readonly TestNode[]): Reservation => {
    const taken = [...reservations.values()].flatMap(({ machines }) =>
      machines.map((machine) => ({ node: machine.node, cpu: cpuOf(machine) })),
    );
    const machines: muster.reservation.v1.Machine[] = [];
    for (const need of reservation.needs) {
      const node = findNode(need, nodes, taken)?.name;
      if (node === undefined) return reservation;
      taken.push({ node, cpu: cpuOf(need) });
      machines.push(Machine.create({ ...copyOf(need), node }));
    }
    const state = ReservationState.RESERVATION_STATE_GRANTED;
    return Reservation.create({ ...reservation, state, machines, because: undefined });
  };

  const grantAll = async (): Promise<void> => {
    const nodes = await listNodes();
    const held = new Set((await readQueues()).filter((queue) => problemOf(queue) !== "").map(({ name }) => name));
    for (const [key, each] of reservations)
      if (each.machines.length === 0 && !held.has(each.queue) && !requeued.has(key))
        reservations.set(key, grant(each, nodes));
  };

  const grantedOf = (job: string): Reservation =>
    [...reservations.values()].find(({ owner, machines }) => isOfJob(owner, job) && machines.length > 0) ??
    missing({ id: job });

  /** Replaces the reservation by its next state, if it is still the current one. */
  const change = (reservation: Reservation, more: Partial<Reservation>): Reservation => {
    const next = Reservation.create({ ...reservation, ...more, revision: reservation.revision + 1 });
    reservations.set(keyOf(reservation.owner), next);
    return next;
  };

  const publish = (reservation: Reservation): void => {
    const { kind = "", id = "" } = reservation.owner ?? {};
    bus.connection.publish(
      subjects.reservationPreempted(kind, id),
      ReservationPreempted.encode({ reservation }).finish(),
    );
  };

  const ofRequest = ({ owner, reservationId }: { owner?: Owner; reservationId: string }): Reservation | undefined => {
    const found = reservations.get(keyOf(owner));
    return found?.id === reservationId ? found : undefined;
  };

  const stateOf = (queue: Queue, all: readonly Queue[]): muster.reservation.v1.QueueState.$Properties => {
    const own = [...reservations.values()].filter((each) => each.queue === queue.name);
    const granted = own.filter(({ state }) => state === ReservationState.RESERVATION_STATE_GRANTED);
    const needs = granted.flatMap((each) => each.needs);
    const cpu = needs.reduce((sum, need) => sum + cpuOf(need), 0);
    const used = cpu === 0 ? [] : [{ pool: needs[0]?.pool ?? "", amounts: { cpu } }];
    const isInner = all.some(({ parent }) => parent === queue.name);
    const problem = isInner ? "NOT_A_LEAF" : problemOf(queue);
    return { queue, used, pending: own.length - granted.length, admitted: granted.length, problem };
  };

  const handlers: Handlers<typeof ReservationService> = {
    reserve: async ({ owner, needs, nodeSelections, priority, queue }) => {
      const key = keyOf(owner);
      const existing = reservations.get(key);
      if (existing !== undefined && !isSame(existing.needs, needs))
        throwFault({ code: "reservation_differs", ownerKind: owner?.kind ?? "", ownerId: owner?.id ?? "" });
      if (existing === undefined) {
        sequence += 1;
        const because = reasonOf("POOL_AVAILABILITY", needs);
        const state = ReservationState.RESERVATION_STATE_WAITING;
        const kept = {
          ...{ id: `r-${sequence}`, owner, priority, sequence, state, because, queue },
          ...{ needs: needs.map(copyOf), nodeSelections },
        };
        reservations.set(key, Reservation.create(kept));
      }
      await grantAll();
      return { reservation: reservations.get(key) };
    },
    unreserve: async ({ owner, reservationId }) => {
      const released = reservations.get(keyOf(owner))?.id === reservationId && reservations.delete(keyOf(owner));
      await grantAll();
      return { released };
    },
    acceptPreemption: (request) => {
      const found = ofRequest(request);
      const { preemption } = found ?? {};
      if (found === undefined || preemption === undefined) {
        spared += 1;
        return Promise.resolve({ accepted: false, reservation: found });
      }
      const isNews = !preemption.accepted;
      const accepted = { ...preemption, accepted: true };
      const reservation = isNews ? change(found, { preemption: accepted }) : found;
      return Promise.resolve({ accepted: true, reservation });
    },
    requeue: (request) => {
      const found = ofRequest(request);
      if (found?.preemption === undefined) return Promise.resolve({ reservation: found });
      const { beneficiaryId: preemptedFor } = found.preemption;
      const state = ReservationState.RESERVATION_STATE_WAITING;
      const because = reasonOf("POOL_AVAILABILITY", found.needs);
      requeued.add(keyOf(found.owner));
      const reservation = change(found, { state, because, machines: [], preemption: undefined, preemptedFor });
      return Promise.resolve({ reservation });
    },
    checkReservation: () => Promise.resolve({}),
    getReservation: ({ owner }) => Promise.resolve({ reservation: reservations.get(keyOf(owner)) ?? missing(owner) }),
    listReservations: ({ ownerKind }) => {
      const found = [...reservations.values()].filter(({ owner }) => owner?.kind === ownerKind);
      return Promise.resolve({ reservations: found, nextSequence: sequence + 1 });
    },
    listPools: async () => {
      const counts = new Map<string, number>();
      for (const { pool } of await listNodes()) counts.set(pool, (counts.get(pool) ?? 0) + 1);
      return { pools: [...counts].map(([name, capacity]) => ({ name, capacity })) };
    },
    explainReservation: ({ owner }) => missing(owner),
    limitConcurrency: notServed,
    listDemand: notServed,
    listMachines: notServed,
    listUsage: notServed,
    listQueues: async () => {
      const queues = await readQueues();
      await grantAll();
      return { queues: queues.map((queue) => stateOf(queue, queues)) };
    },
  };
  const served = await serveMethods(bus, ReservationService, handlers, { version: "1.0.0", description: "for a test" });
  return {
    preempt: (job, deadlineMs) => {
      const beneficiary = { kind: "job", id: "urgent-0a1b2c3d" };
      const preemption = { beneficiary, beneficiaryId: "r-0", queue: "team-b", reason: "RECLAIM", deadlineMs };
      publish(change(grantedOf(job), { preemption: Preemption.create(preemption) }));
    },
    withdraw: (job) => void change(grantedOf(job), { preemption: undefined }),
    spared: () => spared,
    readmit: async () => {
      requeued.clear();
      await grantAll();
    },
    ignoreHolders: () => {
      ignoresHolders = true;
    },
    [Symbol.asyncDispose]: () => served[Symbol.asyncDispose](),
  };
}

/** Copies the fields to a plain object, because a decoded message inherits some of them. */
function copyOf({ component, pool, shared, nodeSelection }: Need): Need {
  const share = shared && { shared: Share.create({ requests: shared.requests }) };
  return Need.create({ component, pool, nodeSelection, ...share });
}

function cpuOf({ shared }: Pick<Need, "shared">): number {
  return shared === undefined ? MACHINE_CPU : (shared.requests["cpu"] ?? 0);
}

function isSame(one: readonly Need[], other: readonly Need[]): boolean {
  return JSON.stringify(one.map(copyOf)) === JSON.stringify(other.map(copyOf));
}

function reasonOf(code: string, needs: readonly Need[]): muster.reservation.v1.WaitReason {
  return WaitReason.create({ code, pool: needs[0]?.pool ?? "", requested: needs.length });
}

function isOfJob(owner: Owner, job: string): boolean {
  return owner?.id?.replace(/-[^-]+$/, "") === job;
}

function problemOf({ stopPolicy, problem }: Queue): string {
  return problem !== "" || stopPolicy !== "None" ? "HELD" : "";
}

function keyOf(owner: Owner): string {
  return `${owner?.kind}/${owner?.id}`;
}

function missing(owner: Owner): never {
  return throwFault({ code: "not_found", kind: "reservation", id: owner?.id ?? "" });
}

function notServed(): never {
  return throwFault({ code: "internal", operation: "this ledger does not serve it" });
}
