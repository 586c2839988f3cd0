import { randomUUID } from "node:crypto";
import type { Client } from "@muster/bus";
import { describeFault, faultOf, throwFault, unlessMissing } from "@muster/faults";
import { muster, type ReservationService } from "@muster/proto";
import type { LeaseRecord } from "../domain/lease.ts";
import { MACHINE } from "../domain/type-machine.ts";
import { leaseOwner, leaseOwners, type LeaseOwner } from "./lease-owner.ts";
import { requireData } from "./require-data.ts";
import type { Workload } from "./workload.ts";

/** Standings of a held machine that are trouble of an active lease. */
const BROKEN: ReadonlySet<string> = new Set(["NOT_READY", "LOST"]);
/** Standings with which a held machine is lost to a lease that is not active yet. */
const UNUSABLE: ReadonlySet<string> = new Set([...BROKEN, "CORDONED"]);

const GRANTED: number = muster.reservation.v1.ReservationState.RESERVATION_STATE_GRANTED;

type Ledger = Pick<
  Client<typeof ReservationService>,
  "reserve" | "checkReservation" | "listMachines" | "getReservation" | "unreserve"
>;

/** Whole machines of a pool: held in the ledger, which gives all of them at once, and for which the node scaler makes nodes. The result names the nodes. */
export function machineWorkload(ledger: Ledger): Workload {
  const asked = (lease: LeaseRecord) => {
    const { pool, machines: requested } = requireData(MACHINE, lease);
    const needs = Array.from({ length: requested }, (_, at) => ({ component: `machine-${at}`, pool }));
    return { pool, requested, owner: leaseOwner(lease), needs };
  };
  const hold = async (lease: LeaseRecord, signal: AbortSignal): Promise<string> => {
    const { pool, requested, owner, needs } = asked(lease);
    const request = { requestId: randomUUID(), owner, needs, wait: true };
    const { reservation } = await ledger.reserve(request, { signal });
    const state: number | undefined = reservation?.state ?? undefined;
    if (state !== GRANTED)
      // It stands in the ledger's queue, and is asked for again.
      throwFault({ code: "pool_availability", pool, requested, available: reservation?.because?.available ?? 0 });
    const machines = (reservation?.machines ?? []).map(({ node }) => ({ pool, node }));
    return JSON.stringify({ reservation: reservation?.id, machines });
  };
  const provision: Workload["provision"] = async (lease, signal) => {
    const { pool, owner } = asked(lease);
    for (let result = await hold(lease, signal); ;) {
      // The machines of the lease that it takes over are in use.
      const lost =
        lease.madeFor === undefined ? await findMachine(ledger, { owner, pool }, UNUSABLE, signal) : undefined;
      if (lost === undefined) return result;
      await lease.lost?.(`${describeMachine(lost)}: other machines are asked for`);
      await giveBack(ledger, owner, signal);
      result = await hold(lease, signal).catch((error: unknown) => throwLost(lost, error));
    }
  };
  return {
    type: MACHINE.type,
    provision,
    tryOut: async (lease, signal) => {
      const { owner, needs } = asked(lease);
      await ledger.checkReservation({ owner, needs }, { signal });
    },
    check: async (lease, signal) => {
      // What was taken back is asked for again; it may be other nodes.
      const result = await hold(lease, signal);
      const { pool, owner } = asked(lease);
      const broken = await findMachine(ledger, { owner, pool }, BROKEN, signal);
      if (broken === undefined) return result;
      return throwFault({ code: "invalid_request", field: "machines", reason: describeMachine(broken) });
    },
    decommission: async (lease, signal) => {
      for (const owner of leaseOwners(lease)) await giveBack(ledger, owner, signal);
    },
  };
}

type MachineSeen = { readonly node: string; readonly standing: string };

/** The first machine of the owner with such a standing. Rejects with unavailable while the ledger does not know every node. */
async function findMachine(
  ledger: Pick<Ledger, "listMachines">,
  { owner, pool }: { readonly owner: LeaseOwner; readonly pool: string },
  standings: ReadonlySet<string>,
  signal: AbortSignal,
): Promise<MachineSeen | undefined> {
  for (let after = ""; ;) {
    const page = await ledger.listMachines({ pool, continue: after }, { signal });
    if (!page.complete)
      throwFault({ code: "unavailable", dependency: "the ledger's list of all nodes", retryAfterMs: 1000 });
    for (const { holder, node, standing } of page.machines)
      if (holder?.owner?.id === owner.id && standings.has(standing ?? ""))
        return { node: node ?? "", standing: standing ?? "" };
    after = page.continue;
    if (after === "") return undefined;
  }
}

function describeMachine({ node, standing }: MachineSeen): string {
  return `node ${node} is ${standing}`;
}

/** Rejects with why there is no machine in place of the lost one: with unavailable where one is waited for. */
function throwLost(lost: MachineSeen, error: unknown): never {
  const fault = faultOf(error);
  switch (fault?.code) {
    case "pool_availability":
      return throwFault({
        code: "unavailable",
        dependency: `a machine of pool ${fault.pool} in place of node ${lost.node}, which is ${lost.standing},`,
        retryAfterMs: 0,
      });
    case "pool_unknown":
    case "pool_capacity":
      return throwFault({
        code: "invalid_request",
        field: "machines",
        reason: `${describeMachine(lost)}; ${describeFault(fault)}`,
      });
    default:
      throw error;
  }
}

/** Of one owner in one call: it has one reservation at a time, and a request that came late makes the next. */
const GIVEN_BACK_MAX = 3;

/** Resolves once the ledger has ended the owner's reservation, or knows none. Rejects with unavailable where the owner has another one each time. */
async function giveBack(
  ledger: Pick<Ledger, "getReservation" | "unreserve">,
  owner: LeaseOwner,
  signal: AbortSignal,
): Promise<void> {
  for (let times = 0; times < GIVEN_BACK_MAX; times += 1) {
    const found = await unlessMissing(ledger.getReservation({ owner }, { signal }));
    if (found === undefined) return;
    const reservationId = found.reservation?.id ?? "";
    // Where it ended nothing, that one had ended before: what the owner has now may be another.
    const { released } = await ledger.unreserve({ requestId: randomUUID(), owner, reservationId }, { signal });
    if (released) return;
  }
  throwFault({
    code: "unavailable",
    dependency: `the ledger, where ${owner.id} has a new reservation each time,`,
    retryAfterMs: 1000,
  });
}
