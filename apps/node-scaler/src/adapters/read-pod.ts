import type { V1Pod } from "@kubernetes/client-node";
import { labels } from "@muster/proto";
import { computePodRequests } from "@muster/resources";
import { ZONE } from "../domain/may-accept.ts";
import type { PendingPod } from "../domain/pack-pods.ts";
import type { PodOnNode } from "../domain/sightings.ts";

/** The kept part of a pod: its node, or the demand that it waits for; neither for a pod that has ended, or that starts and ends with its node. */
export type KeptPod = {
  readonly on: { readonly node: string; readonly pod: PodOnNode } | undefined;
  readonly pending: PendingPod | undefined;
};

const MIRROR = "kubernetes.io/config.mirror";

export function keepPod(pod: V1Pod, poolLabel: string): KeptPod {
  const node = pod.spec?.nodeName;
  const hasEnded = pod.status?.phase === "Succeeded" || pod.status?.phase === "Failed";
  if (hasEnded || isOfNode(pod)) return { on: undefined, pending: undefined };
  if (node !== undefined && node !== "") return { on: { node, pod: readPod(pod) }, pending: undefined };
  return { on: undefined, pending: readPending(pod, poolLabel) };
}

function isOfNode({ metadata }: V1Pod): boolean {
  const isDaemon = metadata?.ownerReferences?.some(
    ({ kind, controller }) => kind === "DaemonSet" && controller === true,
  );
  return isDaemon === true || metadata?.annotations?.[MIRROR] !== undefined;
}

function readPod({ metadata }: V1Pod): PodOnNode {
  const [kind, id] = [metadata?.labels?.[labels.ownerKind], metadata?.labels?.[labels.owner]];
  return {
    namespace: metadata?.namespace ?? "",
    name: metadata?.name ?? "",
    uid: metadata?.uid ?? "",
    owner: kind === undefined || id === undefined ? undefined : { kind, id },
    deleting: metadata?.deletionTimestamp !== undefined,
  };
}

/** Reads a pending pod. Muster's own pods wait in the ledger, which requests machines for them. */
function readPending({ metadata, spec, status }: V1Pod, poolLabel: string): PendingPod | undefined {
  const pool = spec?.nodeSelector?.[poolLabel];
  const isUnschedulable = status?.conditions?.some(
    ({ type, status: is, reason }) => type === "PodScheduled" && is === "False" && reason === "Unschedulable",
  );
  const isOwned = metadata?.labels?.[labels.owner] !== undefined;
  if (spec === undefined || pool === undefined || isUnschedulable !== true || isOwned) return undefined;
  if (metadata?.deletionTimestamp !== undefined) return undefined;
  const requests = computePodRequests(spec);
  return {
    namespace: metadata?.namespace ?? "",
    name: metadata?.name ?? "",
    // Times are strings in the API server's messages.
    createdAtMs: Date.parse(String(metadata?.creationTimestamp)) || 0,
    pool,
    zone: spec.nodeSelector?.[ZONE],
    cpuMilli: requests.get("cpu") ?? 0,
    memoryBytes: requests.get("memory") ?? 0,
    ...(spec.tolerations !== undefined && { tolerations: spec.tolerations }),
    gpus: [...requests].reduce((sum, [resource, amount]) => sum + (resource.endsWith("/gpu") ? amount : 0), 0),
  };
}
