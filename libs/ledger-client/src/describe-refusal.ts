import { describeFault, type Fault } from "@muster/faults";
import { describeNodeSelection } from "@muster/resources";
import type { Need } from "./reservation.ts";

/**
 * Why the ledger refuses the needs, for people. Of a request for parts of machines the capacity is no number of machines. With node selections, machines that
 * match none of them do not count.
 */
export function describeRefusal(fault: Fault, needs: readonly Need[]): string {
  if (fault.code !== "pool_capacity" || fault.topology !== undefined) return describeFault(fault);
  const { pool, requested, capacity } = fault;
  const ofPool = needs.filter((need) => need.pool === pool);
  const selections = new Set(ofPool.flatMap(({ selection }) => (selection ? [describeNodeSelection(selection)] : [])));
  const among = selections.size === 0 ? "" : ` that its pods accept (${[...selections].join("; or ")})`;
  if (ofPool.some(({ shared }) => shared !== undefined)) {
    const fitting = `pool ${pool} has room for ${capacity} of the ${requested} requested parts and machines${among}`;
    return `${fitting} when nothing else runs: request less of each resource, or add larger machines`;
  }
  if (among === "") return describeFault(fault);
  const machines = capacity === 1 ? "1 machine" : `${capacity} machines`;
  return `pool ${pool} has ${machines} at most${among}, ${requested} are needed: request fewer, or label or add machines`;
}
