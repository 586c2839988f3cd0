export { playKarpenter } from "./play-karpenter.ts";
export type { Karpenter, PlayedNodeClaim } from "./play-karpenter.ts";
export { buildMachineDeployment, playClusterApi } from "./play-cluster-api.ts";
export type { ClusterApi, PlayedMachine } from "./play-cluster-api.ts";
