import { z } from "zod";
import { KUBERNETES_SIZES, kubernetesUnits } from "./kubernetes-sizes.ts";
import { workloadType } from "./workload-type.ts";

const only = `only size 1 to ${KUBERNETES_SIZES}`;

const schema = z.strictObject({ size: z.int().min(1, only).max(KUBERNETES_SIZES, only) });

export type KubernetesData = z.output<typeof schema>;

export const KUBERNETES = workloadType({
  type: "kubernetes",
  counter: "vm",
  rank: 6,
  schema,
  claimOf: ({ size }) => ({
    units: kubernetesUnits(size),
    network: undefined,
    needs: { networks: [], volumes: [] },
  }),
});
