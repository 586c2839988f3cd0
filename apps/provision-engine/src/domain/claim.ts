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

/** One line with all that is wrong. */
export function describeProblems(problems: readonly Problem[]): string {
  return problems.map(({ field, reason }) => `${field} ${reason}`).join("; ");
}
