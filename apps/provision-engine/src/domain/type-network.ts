import { NO_UNITS } from "./resource-units.ts";
import { workloadType } from "./workload-type.ts";

export const NETWORK = workloadType({
  type: "network",
  counter: "network",
  rank: 1,
  claimOf: ({ name }) => ({ units: NO_UNITS, network: name, needs: { networks: [], volumes: [] } }),
});
