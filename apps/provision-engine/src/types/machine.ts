import { describeFault, findFault, throwFault } from "@muster/faults";
import { getOrigin, type LeaseRecord } from "../domain/lease.ts";
import { NO_UNITS } from "../domain/claim.ts";
import { findQueueWait, type LeaseQueue, type MachineRequest } from "./lease-queue.ts";
import { requireData, makeWorkloadType } from "./workload-type.ts";
import type { LeaseLedger, Workload } from "./workload.ts";

/** Machines use no capacity of the engine: the ledger decides about them. */
export const MACHINE = makeWorkloadType({
  type: "machine",
  counter: "machine",
  rank: 7,
  claimOf: () => ({ units: NO_UNITS, network: undefined, needs: { networks: [], volumes: [] } }),
  workload: ({ ledger, leaseQueue }) => makeMachineWorkload(ledger, leaseQueue),
});

/** Owner of the machines of one run of a lease, in the ledger. */
type LeaseOwner = { readonly kind: string; readonly id: string };

/** Kind of lease owners in the ledger. */
export const OWNER_KIND = "lease";

/** The owner id consists of lease id and run. */
const OWNER_ID = /^(\d+-\d+)-([1-9]\d{0,14})$/;

/** Each run is an owner of its own, so that the late release of an earlier run cannot release machines of a later one. */
export function buildLeaseOwner(lease: Pick<LeaseRecord, "order" | "run" | "madeFor">): LeaseOwner {
  const { id, run } = getOrigin(lease);
  return { kind: OWNER_KIND, id: `${id}-${run}` };
}

/** Clean-up releases machines of earlier runs than these, because each run costs a call at the end of a lease. */
const MAX_RELEASED_RUNS = 20;

/** Owner ids of this and earlier runs, latest first: a request of an earlier run may have been granted after that run ended. */
function leaseOwners(lease: Pick<LeaseRecord, "order" | "run" | "madeFor">): string[] {
  const { id, run } = getOrigin(lease);
  const runs = Array.from({ length: Math.min(run, MAX_RELEASED_RUNS) }, (_, before) => run - before);
  return runs.map((each) => `${id}-${each}`);
}

/** Parses an owner id; undefined if it is not the id of a lease owner. */
export function parseLeaseOwner(id: string): { readonly id: string; readonly run: number } | undefined {
  const [, lease, run] = OWNER_ID.exec(id) ?? [];
  return lease === undefined || run === undefined ? undefined : { id: lease, run: Number(run) };
}

/** Standings of a held machine that are trouble of an active lease. */
const BROKEN: ReadonlySet<string> = new Set(["NOT_READY", "LOST"]);
/** Standings of a held machine that make it unusable for a lease that is not active yet. */
const UNUSABLE: ReadonlySet<string> = new Set([...BROKEN, "CORDONED"]);

/** Builds the request of a lease of machines to the ledger. */
export function buildMachineRequest(lease: LeaseRecord): MachineRequest {
  const { pool, machines } = requireData(MACHINE, lease);
  const needs = Array.from({ length: machines }, (_, at) => ({ component: `machine-${at}`, pool }));
  return { pool, owner: buildLeaseOwner(lease).id, needs };
}

/** Whole machines of a pool. The ledger grants all of them or none, and the node scaler creates nodes for them. The result names the nodes. */
export function makeMachineWorkload(ledger: LeaseLedger, queue: LeaseQueue): Workload {
  const hold = async (lease: LeaseRecord, signal: AbortSignal): Promise<string> => {
    const request = buildMachineRequest(lease);
    const { pool, needs } = request;
    const reservation = await queue.reserve(request, signal);
    if (reservation.state === "granted") {
      const machines = reservation.machines.map(({ node }) => ({ pool, node }));
      return JSON.stringify({ reservation: reservation.id, machines });
    }
    // The request is in the queue of the ledger, and is repeated.
    const wait = findQueueWait(reservation);
    if (wait !== undefined)
      return throwFault({ code: "unavailable", dependency: `a machine of pool ${pool} (${wait})`, retryAfterMs: 0 });
    const available = reservation.because?.available ?? 0;
    return throwFault({ code: "pool_availability", pool, requested: needs.length, available });
  };
  const provision: Workload["provision"] = async (lease, signal) => {
    const { pool, owner } = buildMachineRequest(lease);
    for (let result = await hold(lease, signal); ;) {
      // A workload that is taken over already uses its machines.
      const lost =
        lease.madeFor === undefined ? await findMachine(ledger, { owner, pool }, UNUSABLE, signal) : undefined;
      if (lost === undefined) return result;
      await lease.onLost?.(`${describeMachine(lost)}: other machines are requested`);
      await releaseMachines(ledger, owner, signal);
      result = await hold(lease, signal).catch((error: unknown) => throwLost(lost, error));
    }
  };
  return {
    type: MACHINE.type,
    provision,
    preflight: async (lease, signal) => {
      await queue.check(buildMachineRequest(lease), signal);
    },
    check: async (lease, signal) => {
      // Requests machines again after a preemption; the nodes may differ.
      const result = await hold(lease, signal);
      const { pool, owner } = buildMachineRequest(lease);
      const broken = await findMachine(ledger, { owner, pool }, BROKEN, signal);
      if (broken === undefined) return result;
      return throwFault({ code: "invalid_request", field: "machines", reason: describeMachine(broken) });
    },
    decommission: async (lease, signal) => {
      for (const owner of leaseOwners(lease)) await releaseMachines(ledger, owner, signal);
    },
  };
}

type MachineSeen = { readonly node: string; readonly standing: string };

/** Returns the first machine of the owner with one of these standings. Rejects with unavailable while the ledger does not know every node. */
async function findMachine(
  ledger: Pick<LeaseLedger, "listMachines">,
  { owner, pool }: { readonly owner: string; readonly pool: string },
  standings: ReadonlySet<string>,
  signal: AbortSignal,
): Promise<MachineSeen | undefined> {
  for (let after = ""; ;) {
    const page = await ledger.listMachines({ pool, continue: after }, { signal });
    if (!page.complete)
      throwFault({ code: "unavailable", dependency: "the ledger's list of all nodes", retryAfterMs: 1000 });
    for (const { holder, node, standing } of page.machines)
      if (holder?.owner?.id === owner && standings.has(standing)) return { node, standing };
    after = page.continue;
    if (after === "") return undefined;
  }
}

function describeMachine({ node, standing }: MachineSeen): string {
  return `node ${node} is ${standing}`;
}

/** Rejects with the reason why the lost machine has no replacement, with unavailable while one is queued. */
function throwLost(lost: MachineSeen, error: unknown): never {
  const fault = findFault(error);
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

/** Maximum releases for one owner per call: it has one reservation at a time, but a late request can create another. */
const MAX_RELEASES = 3;

/** Resolves once the owner has no reservation. Rejects with unavailable if the owner gets a new reservation each time. */
async function releaseMachines(
  ledger: Pick<LeaseLedger, "ask" | "release">,
  owner: string,
  signal: AbortSignal,
): Promise<void> {
  for (let times = 0; times < MAX_RELEASES; times += 1) {
    const found = await ledger.ask(owner, { signal });
    // If no reservation was released, the found one had already ended, and the owner may have a newer one.
    if (found === undefined || (await ledger.release(owner, found.id, { signal }))) return;
  }
  throwFault({
    code: "unavailable",
    dependency: `the ledger, where ${owner} gets a new reservation each time,`,
    retryAfterMs: 1000,
  });
}
