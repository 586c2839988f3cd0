import type { V1Node, V1Pod } from "@kubernetes/client-node";
import { describeFault, findFault } from "@muster/faults";
import { getStatusMessage, unlessFault, unlessMissing, withKubeFault, type KubeCalls } from "@muster/kube";
import { annotations, taints } from "@muster/proto";
import type { Cluster } from "../scaler.ts";
import { keepPod } from "./read-pod.ts";

const NODES = { apiVersion: "v1", plural: "nodes" };
const PODS = { apiVersion: "v1", plural: "pods" };

type NodeCalls = Pick<Cluster, "removeStartupTaint" | "cordon" | "uncordon" | "evict" | "podsOn" | "deleteNode">;

/** Each call is idempotent: a completed change and a missing object are no failures. */
export function makeNodeCalls(calls: KubeCalls, timeoutMs: number): NodeCalls {
  const options = { timeoutMs };
  return {
    removeStartupTaint: async (name) => {
      const node = await unlessGone(calls.get<V1Node>(NODES, name, options));
      const found = node?.spec?.taints ?? [];
      const kept = found.filter(({ key }) => key !== taints.startup);
      if (node === undefined || kept.length === found.length) return;
      // The patch replaces the whole list; the resource version protects a taint that another client adds meanwhile.
      const body = { metadata: { resourceVersion: node.metadata?.resourceVersion }, spec: { taints: kept } };
      await unlessGone(calls.patch(NODES, name, { kind: "merge", body }, options));
    },
    cordon: async (name, because) => {
      const node = await unlessGone(calls.get<V1Node>(NODES, name, options));
      // A cordon of another client stays.
      if (node === undefined || node.spec?.unschedulable === true) return;
      const body = { metadata: { annotations: { [annotations.cordoned]: because } }, spec: { unschedulable: true } };
      await unlessGone(calls.patch(NODES, name, { kind: "merge", body }, options));
    },
    uncordon: async (name) => {
      const node = await unlessGone(calls.get<V1Node>(NODES, name, options));
      if (node?.metadata?.annotations?.[annotations.cordoned] === undefined) return;
      const body = { metadata: { annotations: { [annotations.cordoned]: null } }, spec: { unschedulable: null } };
      await unlessGone(calls.patch(NODES, name, { kind: "merge", body }, options));
    },
    evict: (pod) => evict(calls, pod, options),
    podsOn: async (name) => {
      const query = { fieldSelector: `spec.nodeName=${name}` };
      const { items } = await calls.list<V1Pod>(PODS, { ...options, query });
      return items.flatMap((pod) => keepPod(pod, "").on?.pod ?? []);
    },
    deleteNode: async ({ name, uid }) => {
      // A conflict means that another node has the name now.
      const deletion = calls.delete(NODES, name, { ...options, preconditions: { uid } });
      await withKubeFault(unlessFault(deletion, "not_found", "conflict"));
    },
  };
}

/** Returns why the eviction does not succeed now; undefined: the pod terminates or is missing. */
async function evict(
  calls: KubeCalls,
  { namespace, name, uid }: Parameters<Cluster["evict"]>[0],
  options: { readonly timeoutMs: number },
): Promise<string | undefined> {
  const eviction = {
    apiVersion: "policy/v1",
    kind: "Eviction",
    metadata: { name, namespace },
    deleteOptions: { preconditions: { uid } },
  };
  const pods = { ...PODS, namespace };
  // The pod is read first, because a kube-apiserver retries an eviction with an unmet precondition until the timeout. The list needs only the right to follow
  // pods.
  const query = { fieldSelector: `metadata.name=${name}` };
  const { items } = await calls.list<V1Pod>(pods, { ...options, query });
  if (items[0]?.metadata?.uid !== uid) return undefined;
  try {
    // A conflict means that another pod has the name now, which the next round handles.
    const creation = calls.create(pods, eviction, { ...options, subresource: "eviction" });
    await withKubeFault(unlessFault(creation, "not_found", "conflict"));
    return undefined;
  } catch (error) {
    const fault = findFault(error);
    // The cause is a disruption budget, or a busy server.
    if (fault?.code === "unavailable") return getStatusMessage(error) ?? describeFault(fault);
    throw error;
  }
}

/** Returns undefined if the object is missing. */
function unlessGone<Result>(call: Promise<Result>): Promise<Result | undefined> {
  return withKubeFault(unlessMissing(call));
}
