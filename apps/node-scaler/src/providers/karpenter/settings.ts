import { z } from "zod";
import { controllerName, kubernetesName } from "../settings-parts.ts";

/** The block of a provider of kind `karpenter`. */
export const karpenterSettings = z.strictObject({
  kind: z.literal("karpenter"),
  /** The value of a label on NodeClaims; the scaler changes only claims with it. Each scaler and cluster need their own value. */
  controller: controllerName,
  /** The class of these nodes in the cloud: an EC2NodeClass, an AKSNodeClass ... */
  nodeClass: z.strictObject({ group: z.string().min(1), kind: z.string().min(1), name: kubernetesName }),
  /** The time in which Karpenter may evict pods that the scaler's own drain has left. */
  terminationGracePeriod: z
    .string()
    .regex(/^([0-9]+(s|m|h))+$/, "has to be a duration such as 5m")
    .default("5m"),
});

export type KarpenterSettings = z.infer<typeof karpenterSettings>;
