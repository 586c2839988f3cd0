import { NO_UNITS } from "./resource-units.ts";
import { workloadType } from "./workload-type.ts";

/** Whole machines take nothing of the engine's own capacity: the ledger of machines decides about them. */
export const MACHINE = workloadType({
  type: "machine",
  counter: "machine",
  rank: 7,
  claimOf: () => ({ units: NO_UNITS, network: undefined, needs: { networks: [], volumes: [] } }),
});
