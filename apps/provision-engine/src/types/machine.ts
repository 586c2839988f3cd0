import { describeFault, faultOf, throwFault, unlessMissing } from "@muster/faults";
import { enums } from "@muster/proto";
import { originOf, type LeaseRecord } from "../domain/lease.ts";
import { NO_UNITS } from "../domain/resource-units.ts";
import { requireData, workloadType } from "./workload-type.ts";
import type { Ledger, Workload } from "./workload.ts";

/** Whole machines take nothing of the engine's own capacity: the ledger of machines decides about them. */
export const MACHINE = workloadType({
  type: "machine",
  counter: "machine",
  rank: 7,
  claimOf: () => ({ units: NO_UNITS, network: undefined, needs: { networks: [], volumes: [] } }),
  workload: ({ ledger, newRequestId }) => machineWorkload(ledger, newRequestId),
});

/** Who holds the machines of one run of a lease, in the ledger. */
export type LeaseOwner = { readonly kind: string; readonly id: string };

/** Of leases, in the ledger. */
export const OWNER_KIND = "lease";

/** A number, a number, and the run. */
const OWNER_ID = /^(\d+-\d+)-([1-9]\d{0,14})$/;

/** Each run has a name of its own, so that what gives back an earlier one late gives back nothing of a later one. */
export function leaseOwner(lease: Pick<LeaseRecord, "order" | "run" | "madeFor">): LeaseOwner {
  const { id, run } = originOf(lease);
  return { kind: OWNER_KIND, id: `${id}-${run}` };
}

/** Of more runs, those before are clean-up's: at the end of a lease each costs a call. */
const MAX_RELEASED_RUNS = 20;

/** Those of this run and of earlier ones, the latest first: what was asked for in an earlier run may have been granted after that was over. */
export function leaseOwners(lease: Pick<LeaseRecord, "order" | "run" | "madeFor">): LeaseOwner[] {
  const { id, run } = originOf(lease);
  const runs = Array.from({ length: Math.min(run, MAX_RELEASED_RUNS) }, (_, before) => run - before);
  return runs.map((each) => ({ kind: OWNER_KIND, id: `${id}-${each}` }));
}

/** The lease, and the run of it, that machines are held for; undefined: `id` is no owner's that an engine would name. */
export function leaseOfOwner(id: string): { readonly id: string; readonly run: number } | undefined {
  const [, lease, run] = OWNER_ID.exec(id) ?? [];
  return lease === undefined || run === undefined ? undefined : { id: lease, run: Number(run) };
}

/** Standings of a held machine that are trouble of an active lease. */
const BROKEN: ReadonlySet<string> = new Set(["NOT_READY", "LOST"]);
/** Standings with which a held machine is lost to a lease that is not active yet. */
const UNUSABLE: ReadonlySet<string> = new Set([...BROKEN, "CORDONED"]);

/** Whole machines of a pool: held in the ledger, which gives all of them at once, and for which the node scaler makes nodes. The result names the nodes. */
export function machineWorkload(ledger: Ledger, newRequestId: () => string): Workload {
  const requestFor = (lease: LeaseRecord) => {
    const { pool, machines: requested } = requireData(MACHINE, lease);
    const needs = Array.from({ length: requested }, (_, at) => ({ component: `machine-${at}`, pool }));
    return { pool, requested, owner: leaseOwner(lease), needs };
  };
  const hold = async (lease: LeaseRecord, signal: AbortSignal): Promise<string> => {
    const { pool, requested, owner, needs } = requestFor(lease);
    const request = { requestId: newRequestId(), owner, needs, wait: true };
    const { reservation } = await ledger.reserve(request, { signal });
    if (enums.ReservationState.nameOf(reservation?.state) !== "GRANTED")
      // It stands in the ledger's queue, and is asked for again.
      throwFault({ code: "pool_availability", pool, requested, available: reservation?.because?.available ?? 0 });
    const machines = (reservation?.machines ?? []).map(({ node }) => ({ pool, node }));
    return JSON.stringify({ reservation: reservation?.id, machines });
  };
  const provision: Workload["provision"] = async (lease, signal) => {
    const { pool, owner } = requestFor(lease);
    for (let result = await hold(lease, signal); ;) {
      // The machines of the lease that it takes over are in use.
      const lost =
        lease.madeFor === undefined ? await findMachine(ledger, { owner, pool }, UNUSABLE, signal) : undefined;
      if (lost === undefined) return result;
      await lease.onLost?.(`${describeMachine(lost)}: other machines are asked for`);
      await releaseMachines(ledger, newRequestId, owner, signal);
      result = await hold(lease, signal).catch((error: unknown) => throwLost(lost, error));
    }
  };
  return {
    type: MACHINE.type,
    provision,
    preflight: async (lease, signal) => {
      const { owner, needs } = requestFor(lease);
      await ledger.checkReservation({ owner, needs }, { signal });
    },
    check: async (lease, signal) => {
      // What was taken back is asked for again; it may be other nodes.
      const result = await hold(lease, signal);
      const { pool, owner } = requestFor(lease);
      const broken = await findMachine(ledger, { owner, pool }, BROKEN, signal);
      if (broken === undefined) return result;
      return throwFault({ code: "invalid_request", field: "machines", reason: describeMachine(broken) });
    },
    decommission: async (lease, signal) => {
      for (const owner of leaseOwners(lease)) await releaseMachines(ledger, newRequestId, owner, signal);
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
      if (holder?.owner?.id === owner.id && standings.has(standing)) return { node, standing };
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
const MAX_RELEASES = 3;

/** Resolves once the ledger has ended the owner's reservation, or knows none. Rejects with unavailable where the owner has another one each time. */
async function releaseMachines(
  ledger: Pick<Ledger, "getReservation" | "unreserve">,
  newRequestId: () => string,
  owner: LeaseOwner,
  signal: AbortSignal,
): Promise<void> {
  for (let times = 0; times < MAX_RELEASES; times += 1) {
    const found = await unlessMissing(ledger.getReservation({ owner }, { signal }));
    if (found === undefined) return;
    const reservationId = found.reservation?.id ?? "";
    // Where it ended nothing, that one had ended before: what the owner has now may be another.
    const { released } = await ledger.unreserve({ requestId: newRequestId(), owner, reservationId }, { signal });
    if (released) return;
  }
  throwFault({
    code: "unavailable",
    dependency: `the ledger, where ${owner.id} has a new reservation each time,`,
    retryAfterMs: 1000,
  });
}
