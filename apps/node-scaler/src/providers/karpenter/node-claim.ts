import type { KubeObject } from "@muster/kube";
import type { BootRequest, Instance } from "../provider.ts";
import type { KarpenterSettings } from "./settings.ts";
import { ZONE } from "../../domain/may-accept.ts";

export const NODE_CLAIMS = { apiVersion: "karpenter.sh/v1", plural: "nodeclaims" };
export const CONTROLLER_LABEL = "muster.dev/controller";

type Condition = {
  readonly type: string;
  readonly status: string;
  readonly reason?: string;
  readonly message?: string;
};

/** The fields of a NodeClaim that the scaler reads and writes. */
export type NodeClaim = KubeObject & {
  readonly spec?: Readonly<Record<string, unknown>>;
  readonly status?: {
    readonly nodeName?: string;
    readonly providerID?: string;
    readonly conditions?: readonly Condition[];
  };
};

/** Builds the order for one node. Karpenter copies the claim's labels to the node. */
export function buildNodeClaim(settings: KarpenterSettings, boot: BootRequest): NodeClaim {
  const one = (key: string, value: string) => ({ key, operator: "In", values: [value] });
  return {
    apiVersion: NODE_CLAIMS.apiVersion,
    kind: "NodeClaim",
    metadata: { name: boot.nodeName, labels: { ...boot.labels, [CONTROLLER_LABEL]: settings.controller } },
    spec: {
      nodeClassRef: settings.nodeClass,
      requirements: [
        one("node.kubernetes.io/instance-type", boot.instanceType),
        one("karpenter.sh/capacity-type", boot.spot ? "spot" : "on-demand"),
        ...(boot.zone === undefined ? [] : [one(ZONE, boot.zone)]),
      ],
      startupTaints: boot.taints,
      terminationGracePeriod: settings.terminationGracePeriod,
      // Claims never expire, because the scaler ends nodes itself.
      expireAfter: "Never",
    },
  };
}

/**
 * Reads a claim. A deletion that the scaler did not request means that the cloud reclaims the instance: Karpenter deletes the claims of interrupted spot
 * instances.
 */
export function readNodeClaim(claim: NodeClaim): Instance {
  const { metadata, status } = claim;
  const deletedAt = metadata?.deletionTimestamp;
  const nodeName = metadata?.name ?? "";
  const launched = findCondition(claim, "Launched");
  return {
    instanceId: nodeName,
    nodeName,
    state: deletedAt !== undefined ? "stopping" : launched?.status === "True" ? "running" : "pending",
    zone: metadata?.labels?.[ZONE],
    addresses: [],
    kubernetesNode: status?.nodeName === "" ? undefined : status?.nodeName,
    lostAtMs: deletedAt === undefined ? undefined : Date.parse(String(deletedAt)),
    failure: launched?.reason === "LaunchFailed" ? (launched.message ?? launched.reason) : undefined,
  };
}

export function isLaunched(claim: NodeClaim): boolean {
  return findCondition(claim, "Launched")?.status === "True";
}

function findCondition({ status }: NodeClaim, type: string): Condition | undefined {
  return status?.conditions?.find((condition) => condition.type === type);
}
