import { describeFault, faultOf, isRetryable } from "@muster/faults";
import type { Order } from "@muster/leases";
import type { Claim } from "../domain/claim.ts";
import type { OrderAges } from "../domain/decide-order.ts";
import type { Referenced, Neighbour, Surroundings } from "../domain/surroundings.ts";
import { mayHoldResources, type LeaseRecord, type Phase } from "../domain/lease.ts";
import { takeSnapshot } from "../domain/lease-snapshot.ts";
import { planLease, type LeasePolicy } from "../domain/plan-lease.ts";
import { addUnits } from "../domain/resource-units.ts";
import type { Holdings } from "../holdings/holdings.ts";
import { unitsOf, type Overheads } from "../types/count-leases.ts";
import { readClaim } from "../types/workload-types.ts";
import type { Workload } from "../types/workload.ts";

export type ForeseeDeps = {
  readonly workloads: ReadonlyMap<string, Pick<Workload, "preflight">>;
  readonly around: Holdings["around"];
  readonly overheads: Overheads;
  /** Undefined: there is no such lease. */
  readonly phaseOf: (id: string) => Phase | undefined;
  readonly referencedBy: (record: LeaseRecord) => Referenced | undefined;
  readonly policy: LeasePolicy & OrderAges;
  readonly nowNs: () => bigint;
};

/** Of what a workload asks others before it says that it could be made. */
const MAX_PREFLIGHT_MS = 2000;

/**
 * Why an order would be FAILED as soon as it is begun, decided from what is known now as its own step would be; empty: nothing is known against it, and it may still fail.
 * `before`: orders that count as begun unless their leases are there already. Nothing is written or made.
 */
export async function foreseeOrder(
  deps: ForeseeDeps,
  record: LeaseRecord,
  before: readonly Order[],
  signal: AbortSignal,
): Promise<string> {
  const { order } = record;
  if (record.phase !== "ORDERED") return "";
  const workload = deps.workloads.get(order.type);
  const [claim, around] = [readClaim(order), deps.around(order)];
  const snapshot = takeSnapshot(
    record,
    {
      claim,
      isServed: workload !== undefined,
      around: claim.ok ? withOrders(around, { order, claim: claim.value }, before, deps) : around,
      reference: deps.referencedBy(record),
      exits: [],
      keptFor: undefined,
    },
    deps.policy,
  );
  const plan = planLease(snapshot, deps.policy, deps.nowNs());
  if (plan.kind === "fail") return plan.message;
  // Of what waits, and of what is there already, nothing is made now.
  if (plan.kind !== "change" || snapshot.reference !== undefined) return "";
  return refusalOf(workload, record, signal);
}

async function refusalOf(
  workload: Pick<Workload, "preflight"> | undefined,
  record: LeaseRecord,
  signal: AbortSignal,
): Promise<string> {
  const late = AbortSignal.any([signal, AbortSignal.timeout(MAX_PREFLIGHT_MS)]);
  try {
    await workload?.preflight?.(record, late);
    return "";
  } catch (error) {
    const fault = faultOf(error);
    // That nobody answers, or what may be otherwise later, says nothing of the order.
    if (fault !== undefined) return isRetryable(fault) ? "" : describeFault(fault);
    if (late.aborted) return "";
    throw error;
  }
}

/** What there would be beside an order, were others of its user sent before, and begun unless they are there already. */
function withOrders(
  around: Surroundings,
  { order, claim }: { readonly order: Order; readonly claim: Claim },
  before: readonly Order[],
  { overheads, phaseOf }: Pick<ForeseeDeps, "overheads" | "phaseOf">,
): Surroundings {
  const { needs, network: own } = claim;
  let { held } = around;
  const named = new Map(around.named.map((each): [string, Neighbour] => [each.id, each]));
  for (const other of before) {
    const read = other.user === order.user && other.engine === order.engine ? readClaim(other) : undefined;
    if (read?.ok !== true || other.id === order.id || !wouldBegin(phaseOf(other.id))) continue;
    // What it takes over is counted already.
    const takesOver = other.reference !== undefined && phaseOf(other.reference) !== undefined;
    if (!takesOver) held = addUnits(held, unitsOf(other, read.value, overheads));
    const { network } = read.value;
    const isNamed =
      needs.volumes.includes(other.id) ||
      (network !== undefined && (network === own || needs.networks.includes(network)));
    if (!isNamed) continue;
    const { id, type } = other;
    named.set(id, { id, type, phase: "PROVISIONING", network, within: read.value.needs.networks[0] });
  }
  return { ...around, held, named: [...named.values()] };
}

/** What may be there is counted as it is, and what has ended never runs again. */
function wouldBegin(phase: Phase | undefined): boolean {
  return phase === undefined || (!mayHoldResources(phase) && phase !== "ENDED");
}
