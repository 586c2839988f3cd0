import { ownerIdOfUnit } from "./build-units.ts";

/** What the ledger has for jobs, and which of them there still are. */
export type Leftovers = {
  /** Everything that jobs hold or wait for. */
  readonly unitIds: readonly string[];
  readonly jobs: ReadonlySet<string>;
  /** Owner ids of pods that may still run. */
  readonly running: ReadonlySet<string>;
};

/** Units to be given back because their job is gone: deleted while nobody looked, and its pods are gone, too. */
export function planLeftovers({ unitIds, jobs, running }: Leftovers): readonly string[] {
  return unitIds.filter((id) => !jobs.has(ownerIdOfUnit(id)) && !running.has(ownerIdOfUnit(id)));
}
