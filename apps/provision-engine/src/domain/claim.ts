import type { ResourceUnits } from "./resource-units.ts";

/** The resources and dependencies of a workload, read from its data. */
export type Claim = {
  readonly units: ResourceUnits;
  /** Name of the network that this workload creates; undefined for other types. */
  readonly network: string | undefined;
  /** Required leases of the same user: networks by name, volumes by lease id. */
  readonly needs: { readonly networks: readonly string[]; readonly volumes: readonly string[] };
};

export type Problem = { readonly field: string; readonly reason: string };

export type Read<Value> =
  | { readonly ok: true; readonly value: Value }
  /** At least one problem. */
  | { readonly ok: false; readonly problems: readonly Problem[] };

/** Joins all problems in one line. */
export function describeProblems(problems: readonly Problem[]): string {
  return problems.map(({ field, reason }) => `${field} ${reason}`).join("; ");
}
