import { throwFault } from "@muster/faults";
import type { LeaseRecord } from "../domain/lease.ts";
import { describeProblems, type WorkloadType } from "../domain/workload-type.ts";

/** The data of a lease. Throws FaultError invalid_request with all that is wrong with them. */
export function requireData<Data>({ read }: WorkloadType<Data>, { order }: Pick<LeaseRecord, "order">): Data {
  const data = read(order.data);
  if (data.ok) return data.value;
  return throwFault({ code: "invalid_request", field: "data", reason: describeProblems(data.problems) });
}
