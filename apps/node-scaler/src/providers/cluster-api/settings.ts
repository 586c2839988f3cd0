import { z } from "zod";
import { controllerName, kubernetesName } from "../settings-parts.ts";

/** The block of a provider of kind `cluster-api`. */
export const clusterApiSettings = z.strictObject({
  kind: z.literal("cluster-api"),
  /** MachineDeployments carry it as an annotation from their first node on. One value a scaler and management cluster. */
  controller: controllerName,
  /** The namespace of the MachineDeployments. */
  namespace: kubernetesName,
  /** The pool and instance type of the nodes of each MachineDeployment. The scaler owns their replicas. */
  deployments: z
    .array(
      z.strictObject({
        name: kubernetesName,
        pool: z.string().min(1),
        instanceType: z.string().min(1),
        zone: z.string().min(1).optional(),
        spot: z.boolean().default(false),
      }),
    )
    .min(1)
    .refine((all) => new Set(all.map((one) => one.name)).size === all.length, "names one MachineDeployment twice"),
  /** A kubeconfig of the management cluster; that of the scaler's own cluster when absent. */
  kubeconfig: z.string().min(1).optional(),
});

export type ClusterApiSettings = z.infer<typeof clusterApiSettings>;
export type DeploymentSettings = ClusterApiSettings["deployments"][number];
