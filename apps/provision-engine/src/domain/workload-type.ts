import { readData, type DataProblem, type LeaseData, type LeaseType } from "@muster/leases/data";
import type { ProvisionCounters } from "./count-leases.ts";
import type { ResourceUnits } from "./resource-units.ts";

/** What a workload takes and needs, read from its data. */
export type Claim = {
  readonly units: ResourceUnits;
  /** Name of the network that it is; undefined: it is none. */
  readonly network: string | undefined;
  /** What has to be there before, of the same user: networks by name, volumes by the ids of their leases. */
  readonly needs: { readonly networks: readonly string[]; readonly volumes: readonly string[] };
};

export type Problem = { readonly field: string; readonly reason: string };

export type Read<Value> =
  | { readonly ok: true; readonly value: Value }
  /** At least one. */
  | { readonly ok: false; readonly problems: readonly Problem[] };

/** A type of workload as decisions know it. What provisions it is another matter. */
export type WorkloadType<Data = unknown, Type extends string = string> = {
  readonly type: Type;
  /** As what it is counted; undefined: as nothing. */
  readonly counter?: keyof ProvisionCounters;
  /** Of the orders that come together, those of a lower rank are begun first. */
  readonly rank: number;
  readonly read: (json: string) => Read<Data>;
  readonly claim: (json: string) => Read<Claim>;
};

type Definition<Type extends LeaseType> = Pick<WorkloadType, "counter" | "rank"> & {
  readonly type: Type;
  readonly claimOf: (data: LeaseData<Type>) => Claim;
};

export function workloadType<Type extends LeaseType>({
  claimOf,
  ...rest
}: Definition<Type>): WorkloadType<LeaseData<Type>, Type> {
  const read = (json: string): Read<LeaseData<Type>> => {
    const read = readData(rest.type, json);
    return read.ok ? { ok: true, value: read.data } : { ok: false, problems: read.problems.map(problemOf) };
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

/** One line with all that is wrong. */
export function describeProblems(problems: readonly Problem[]): string {
  return problems.map(({ field, reason }) => `${field} ${reason}`).join("; ");
}

function problemOf({ path, reason }: DataProblem): Problem {
  return { field: ["data", ...path].join("."), reason };
}
