import { describeFault, findFault, isRetryable } from "@muster/faults";
import type { Order } from "@muster/leases";
import {
  type LeaseClaim,
  addUnits,
  type ReferencedLease,
  type NeighbourLease,
  type ClaimSurroundings,
} from "../domain/claim.ts";
import type { OrderAges } from "../domain/decide-order.ts";
import { mayHoldResources, type LeaseRecord, type LeasePhase } from "../domain/lease.ts";
import { takeSnapshot, planLease, type LeasePolicy } from "../domain/plan-lease.ts";
import type { LeaseRegistry } from "../holdings/lease-registry.ts";
import { sumUnits, type TypeOverheads, readClaim } from "../types/workload-types.ts";
import type { Workload } from "../types/workload.ts";

export type ForeseeDeps = {
  readonly workloads: ReadonlyMap<string, Pick<Workload, "preflight">>;
  readonly around: LeaseRegistry["around"];
  readonly overheads: TypeOverheads;
  /** Undefined: the lease does not exist. */
  readonly phaseOf: (id: string) => LeasePhase | undefined;
  readonly referencedBy: (record: LeaseRecord) => ReferencedLease | undefined;
  readonly policy: LeasePolicy & OrderAges;
  readonly nowNs: () => bigint;
};

/** Maximum time of a workload's own check of an order. */
const MAX_PREFLIGHT_MS = 2000;

/**
 * Predicts why an order would FAIL as soon as it is begun, by the decision of the real step. Empty: no reason is known, but the order may still fail. Orders in
 * `before` count as begun unless their leases exist. Writes and creates no object.
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
  // A waiting order and a take-over create no object now.
  if (plan.kind !== "change" || snapshot.reference !== undefined) return "";
  return findRefusal(workload, record, signal);
}

async function findRefusal(
  workload: Pick<Workload, "preflight"> | undefined,
  record: LeaseRecord,
  signal: AbortSignal,
): Promise<string> {
  const late = AbortSignal.any([signal, AbortSignal.timeout(MAX_PREFLIGHT_MS)]);
  try {
    await workload?.preflight?.(record, late);
    return "";
  } catch (error) {
    const fault = findFault(error);
    // An unavailable dependency, or a fault that may pass, does not predict a failure of the order.
    if (fault !== undefined) return isRetryable(fault) ? "" : describeFault(fault);
    if (late.aborted) return "";
    throw error;
  }
}

/** The surroundings of an order if earlier orders of its user had been sent and begun. */
function withOrders(
  around: ClaimSurroundings,
  { order, claim }: { readonly order: Order; readonly claim: LeaseClaim },
  before: readonly Order[],
  { overheads, phaseOf }: Pick<ForeseeDeps, "overheads" | "phaseOf">,
): ClaimSurroundings {
  const { needs, network: own } = claim;
  let { held } = around;
  const named = new Map(around.named.map((each): [string, NeighbourLease] => [each.id, each]));
  for (const other of before) {
    const read = other.user === order.user && other.engine === order.engine ? readClaim(other) : undefined;
    if (read?.ok !== true || other.id === order.id || !wouldStart(phaseOf(other.id))) continue;
    // A workload that is taken over is counted already.
    const takesOver = other.reference !== undefined && phaseOf(other.reference) !== undefined;
    if (!takesOver) held = addUnits(held, sumUnits(other, read.value, overheads));
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

/** A lease that may hold resources is counted as it is, and an ended one never runs again. */
function wouldStart(phase: LeasePhase | undefined): boolean {
  return phase === undefined || (!mayHoldResources(phase) && phase !== "ENDED");
}
