import { NO_UNITS } from "./resource-units.ts";
import { workloadType } from "./workload-type.ts";

/** Whatever its data are, they are its result. */
export const DEBUG = workloadType({
  type: "debug",
  counter: "debug",
  rank: 0,
  claimOf: () => ({ units: NO_UNITS, network: undefined, needs: { networks: [], volumes: [] } }),
});
