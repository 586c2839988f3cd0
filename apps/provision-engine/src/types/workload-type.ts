import { throwFault } from "@muster/faults";
import { readData, type DataProblem, type LeaseData, type LeaseType } from "@muster/leases/data";
import { describeProblems, type LeaseClaim, type ClaimProblem, type ReadResult } from "../domain/claim.ts";
import { getOrigin, type LeaseRecord } from "../domain/lease.ts";
import { buildLeaseName, getNamespace, type ObjectPlace } from "./lease-names.ts";
import type { Workload, WorkloadParts } from "./workload.ts";

/** Numbers of active leases by type. `vm` counts kubernetes. */
export type ProvisionCounters = {
  readonly container: number;
  readonly volume: number;
  readonly network: number;
  readonly zdb: number;
  readonly vm: number;
  readonly debug: number;
  readonly machine: number;
};

/** A type of workload: the meaning of its data, and its implementation. */
export type WorkloadType<Data = unknown, Type extends string = string> = {
  readonly type: Type;
  /** The counter of leases of this type; undefined: they are not counted. */
  readonly counter?: keyof ProvisionCounters;
  /** Orders that arrive together begin in ascending rank. */
  readonly rank: number;
  readonly read: (json: string) => ReadResult<Data>;
  readonly claim: (json: string) => ReadResult<LeaseClaim>;
  /** Undefined: this engine does not serve the type. */
  readonly workload: (parts: WorkloadParts) => Workload | undefined;
};

type Definition<Type extends LeaseType> = Pick<WorkloadType, "counter" | "rank" | "workload"> & {
  readonly type: Type;
  readonly claimOf: (data: LeaseData<Type>) => LeaseClaim;
};

export function makeWorkloadType<Type extends LeaseType>({
  claimOf,
  ...rest
}: Definition<Type>): WorkloadType<LeaseData<Type>, Type> {
  const read = (json: string): ReadResult<LeaseData<Type>> => {
    const read = readData(rest.type, json);
    return read.ok ? { ok: true, value: read.data } : { ok: false, problems: read.problems.map(toClaimProblem) };
  };
  return {
    ...rest,
    read,
    claim: (json) => {
      const data = read(json);
      return data.ok ? { ok: true, value: claimOf(data.value) } : data;
    },
  };
}

function toClaimProblem({ path, reason }: DataProblem): ClaimProblem {
  return { field: ["data", ...path].join("."), reason };
}

/** The data of a lease. Throws FaultError invalid_request with all problems. */
export function requireData<Data>({ read }: WorkloadType<Data>, { order }: Pick<LeaseRecord, "order">): Data {
  const data = read(order.data);
  if (data.ok) return data.value;
  return throwFault({ code: "invalid_request", field: "data", reason: describeProblems(data.problems) });
}

/** Name and namespace of the objects of a lease. */
export function getLeasePlace(
  { claim }: Pick<WorkloadType, "claim">,
  lease: Pick<LeaseRecord, "order" | "run" | "madeFor">,
  engineNamespace: string,
): ObjectPlace {
  const { order } = lease;
  return {
    name: buildLeaseName(getOrigin(lease).id),
    namespace: getNamespace(order, claim(order.data), engineNamespace),
  };
}
