import { describeFault, faultOf, isRetryable } from "@muster/faults";
import type { Order } from "@muster/leases";
import type { Overheads } from "../domain/count-leases.ts";
import type { OrderAges } from "../domain/decide-order.ts";
import type { Referenced } from "../domain/decide-take-over.ts";
import type { LeaseRecord, Phase } from "../domain/lease.ts";
import { takeSnapshot } from "../domain/lease-snapshot.ts";
import { planLease, type LeasePolicy } from "../domain/plan-lease.ts";
import { withOrders } from "../domain/with-orders.ts";
import { readClaim } from "../domain/workload-types.ts";
import type { Holdings } from "../holdings/holdings.ts";
import type { Workload } from "../workloads/workload.ts";

export type ForeseeDeps = {
  readonly workloads: ReadonlyMap<string, Pick<Workload, "tryOut">>;
  readonly around: Holdings["around"];
  readonly overheads: Overheads;
  /** Undefined: there is no such lease. */
  readonly phaseOf: (id: string) => Phase | undefined;
  readonly referencedBy: (record: LeaseRecord) => Referenced | undefined;
  readonly policy: LeasePolicy & OrderAges;
  readonly nowNs: () => bigint;
};

/** Of what a workload asks others before it says that it could be made. */
const TRY_OUT_MS = 2000;

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
      isServed: workload !== undefined,
      around: claim.ok ? withOrders(around, { order, claim: claim.value }, before, deps) : around,
      reference: deps.referencedBy(record),
      exits: [],
      keptFor: undefined,
    },
    deps.policy,
  );
  const plan = planLease(snapshot, deps.policy, deps.nowNs());
  if (plan.do === "fail") return plan.message;
  // Of what waits, and of what is there already, nothing is made now.
  if (plan.do !== "change" || snapshot.reference !== undefined) return "";
  return refusalOf(workload, record, signal);
}

async function refusalOf(
  workload: Pick<Workload, "tryOut"> | undefined,
  record: LeaseRecord,
  signal: AbortSignal,
): Promise<string> {
  const late = AbortSignal.any([signal, AbortSignal.timeout(TRY_OUT_MS)]);
  try {
    await workload?.tryOut?.(record, late);
    return "";
  } catch (error) {
    const fault = faultOf(error);
    // That nobody answers, or what may be otherwise later, says nothing of the order.
    if (fault !== undefined) return isRetryable(fault) ? "" : describeFault(fault);
    if (late.aborted) return "";
    throw error;
  }
}
