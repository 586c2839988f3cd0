import { z } from "zod";
import { controllerName, kubernetesName } from "../settings-parts.ts";

/** The block of a provider of kind `cluster-api`. */
export const clusterApiSettings = z.strictObject({
  kind: z.literal("cluster-api"),
  /** The value of an annotation that MachineDeployments get with their first node. Each scaler and management cluster need their own value. */
  controller: controllerName,
  /** The namespace of the MachineDeployments. */
  namespace: kubernetesName,
  /** The pool and instance type of the nodes of each MachineDeployment, whose replicas the scaler sets. */
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
  /** A kubeconfig of the management cluster; absent for the scaler's own cluster. */
  kubeconfig: z.string().min(1).optional(),
});

export type ClusterApiSettings = z.infer<typeof clusterApiSettings>;
export type DeploymentSettings = ClusterApiSettings["deployments"][number];
