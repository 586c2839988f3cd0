import { describeExcluded, describeFault, type Fault, type ShortResource } from "@muster/faults";
import { listAcceptedPools, describeNodeSelection, printAmount } from "@muster/resources";
import type { Need } from "./reservation.ts";

/**
 * Describes why the ledger refuses the needs. In a request for parts of machines, the capacity is not a number of machines. With node selections, only matching
 * machines count.
 */
export function describeRefusal(fault: Fault, needs: readonly Need[]): string {
  if (fault.code === "quota_exceeded") return describeQuota(fault);
  if (fault.code !== "pool_capacity" || fault.topology !== undefined) return describeFault(fault);
  const { cordoned: _cordoned, taints: _taints, ...size } = fault;
  return `${describeSize(size, needs)}${describeExcluded(fault)}`;
}

function describeSize(fault: Extract<Fault, { code: "pool_capacity" }>, needs: readonly Need[]): string {
  const { pool, requested, capacity, short = [] } = fault;
  const ofPool = needs.filter((need) => listAcceptedPools(need).includes(pool));
  const selections = new Set(ofPool.flatMap(({ selection }) => (selection ? [describeNodeSelection(selection)] : [])));
  const among = selections.size === 0 ? "" : ` that its pods accept (${[...selections].join("; or ")})`;
  if (ofPool.some(({ shared }) => shared !== undefined)) {
    const fitting = `pool ${pool} has room for ${capacity} of the ${requested} requested parts and machines${among}`;
    if (short.length === 0)
      return `${fitting} when nothing else runs: request less of each resource, or add larger machines`;
    const amounts = short.map(describeShort).join(", ");
    return `${fitting}: a part requests ${amounts}: request less, or add larger machines`;
  }
  if (short.length > 0) {
    const amounts = short.map(describeShort).join(", ");
    return `pool ${pool} has no machine that is large enough: a pod requests ${amounts}: request less, or add larger machines`;
  }
  if (among === "") return describeFault(fault);
  const machines = capacity === 1 ? "1 machine" : `${capacity} machines`;
  return `pool ${pool} has ${machines} at most${among}, ${requested} are needed: request fewer, or label or add machines`;
}

function describeShort({ resource, requested, largest }: ShortResource): string {
  const instead = largest === 0 ? "no machine has any" : `the largest machine has ${printAmount(resource, largest)}`;
  return `${printAmount(resource, requested)} of ${resource} and ${instead}`;
}

function describeQuota({ queue, pool, resource, requested, most }: Extract<Fault, { code: "quota_exceeded" }>): string {
  const [needed, available] = [requested, most].map((amount) => printAmount(resource, amount));
  // A leaf with quotas uses only the resources that they name.
  const remedy = most === 0 ? `add ${resource} to its quota for the pool` : "request less, or raise its quota";
  return `the queue ${queue} can have ${available} of ${resource} in pool ${pool} at most, ${needed} are needed: ${remedy}`;
}
