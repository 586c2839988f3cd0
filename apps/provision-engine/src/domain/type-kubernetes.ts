import { kubernetesUnits } from "./resource-units.ts";
import { workloadType } from "./workload-type.ts";

export const KUBERNETES = workloadType({
  type: "kubernetes",
  counter: "vm",
  rank: 6,
  claimOf: ({ size }) => ({
    units: kubernetesUnits(size),
    network: undefined,
    needs: { networks: [], volumes: [] },
  }),
});
