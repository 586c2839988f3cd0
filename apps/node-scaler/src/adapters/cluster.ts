import type { KubeConfig, V1Node, V1Pod } from "@kubernetes/client-node";
import type { NatsBus } from "@muster/bus";
import { informer, kubeFault, listWatch, statusMessage, type KubeCalls } from "@muster/kube";
import { annotations, bucketKeys, buckets, muster, taints } from "@muster/proto";
import { openBucket, openView, protoCodec } from "@muster/store";
import { followMark } from "@muster/watch";
import { describeFault, FaultError } from "@muster/faults";
import type { PendingPod } from "../domain/pack-pods.ts";
import type { PodsByNode } from "../domain/sightings.ts";
import type { Cluster } from "../scaler.ts";
import { readNode } from "./read-node.ts";
import { keepPod, type KeptPod } from "./read-pod.ts";

export type OpenCluster = AsyncDisposable &
  Cluster & {
    /** Pods that no node has room for. */
    pendingPods(): readonly PendingPod[];
    /** Resolves when all pods are known. */
    readonly synced: Promise<void>;
    /** What is not as fresh as it should be; undefined when all is. */
    staleness(): string | undefined;
  };

export type ClusterOptions = {
  readonly kube: KubeConfig;
  readonly calls: KubeCalls;
  readonly connection: NatsBus["connection"];
  /** Name of this scaler. */
  readonly scaler: string;
  readonly poolLabel: string;
  /** How long the watcher's mark that all nodes are known is believed. */
  readonly nodesFreshMs: number;
  readonly timeoutMs: number;
  readonly now: () => number;
  readonly onProblem: (what: string, error: unknown, retryInMs: number) => void;
};

const NODES = { apiVersion: "v1", plural: "nodes" };
/** A quiet API server sends a bookmark once a minute. */
const PODS_FRESH_MS = 180_000;

/** Follows nodes through the watcher's bucket, and pods through the API server; nodes are changed through the API server. */
export async function openCluster(options: ClusterOptions): Promise<OpenCluster> {
  const { kube, connection, scaler, poolLabel, nodesFreshMs, now, onProblem } = options;
  const { NodeState, NodesComplete } = muster.watch.v1;
  const followed = { onProblem: (error: unknown, retryInMs: number) => onProblem("nodes", error, retryInMs) };
  await using undo = new AsyncDisposableStack();
  const states = await openBucket(connection, { name: buckets.nodes, codec: protoCodec(NodeState) });
  const marks = await openBucket(connection, { name: buckets.nodes, codec: protoCodec(NodesComplete) });
  const view = undo.use(await openView(states, followed));
  const mark = undo.use(await openView(marks, { ...followed, filter: bucketKeys.nodesComplete }));
  const pods = undo.use(
    informer<V1Pod, KeptPod>({
      source: listWatch<V1Pod>(kube, "/api/v1/pods"),
      project: (pod) => keepPod(pod, poolLabel),
      onError: (error, retryInMs) => onProblem("pods", error, retryInMs),
    }),
  );
  const isFresh = followMark(mark, () => mark.get(bucketKeys.nodesComplete)?.value.atMs, { freshMs: nodesFreshMs });
  const isMarked = (): boolean => view.ageMs() === 0 && isFresh(now());
  const opened = undo.move();
  return {
    nodes: () => {
      const nodes = view.entries().flatMap(({ value }) => readNode(value, scaler) ?? []);
      return { byName: new Map(nodes.map((node) => [node.name, node])), known: isMarked() };
    },
    pods: () => groupByNode(pods.list()),
    pendingPods: () => pods.list().flatMap(({ pending }) => pending ?? []),
    synced: pods.synced,
    staleness: () => {
      if (!isMarked()) return "the watcher has not confirmed lately that all nodes are known";
      const ageMs = pods.ageMs();
      return ageMs > PODS_FRESH_MS ? `the API server last said anything ${Math.round(ageMs)} ms ago` : undefined;
    },
    ...nodeCalls(options),
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}

function groupByNode(pods: readonly KeptPod[]): PodsByNode {
  const on = pods.flatMap((pod) => pod.on ?? []);
  return new Map([...Map.groupBy(on, ({ node }) => node)].map(([node, all]) => [node, all.map(({ pod }) => pod)]));
}

/** Each call is idempotent: a done change and a missing object are no failures. */
export function nodeCalls({
  calls,
  timeoutMs,
}: Pick<ClusterOptions, "calls" | "timeoutMs">): Pick<
  Cluster,
  "removeStartupTaint" | "cordon" | "uncordon" | "evict" | "podsOn" | "deleteNode"
> {
  const options = { timeoutMs };
  /** Undefined: the object is missing, or another one has the name by now. */
  const unlessGone = async <Result>(call: Promise<Result>): Promise<Result | undefined> => {
    try {
      return await call;
    } catch (error) {
      const fault = kubeFault(error);
      if (fault === undefined) throw error;
      if (fault.code === "not_found") return undefined;
      throw new FaultError(fault, { cause: error });
    }
  };
  return {
    removeStartupTaint: async (name) => {
      const node = await unlessGone(calls.get<V1Node>(NODES, name, options));
      const found = node?.spec?.taints ?? [];
      const kept = found.filter(({ key }) => key !== taints.startup);
      if (node === undefined || kept.length === found.length) return;
      // The whole list is replaced: the resource version keeps a taint that another client adds meanwhile.
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
    evict: async ({ namespace, name, uid }) => {
      const eviction = {
        apiVersion: "policy/v1",
        kind: "Eviction",
        metadata: { name, namespace },
        deleteOptions: { preconditions: { uid } },
      };
      const resource = { apiVersion: "v1", plural: "pods", namespace };
      // A kube-apiserver whose precondition does not hold tries for as long as the call may take. Listing needs no right beyond that of following pods.
      const query = { fieldSelector: `metadata.name=${name}` };
      const { items } = await calls.list<V1Pod>(resource, { ...options, query });
      if (items[0]?.metadata?.uid !== uid) return undefined;
      try {
        await unlessGone(calls.create(resource, eviction, { ...options, subresource: "eviction" }));
        return undefined;
      } catch (error) {
        const fault = kubeFault(error);
        // A conflict: it is another pod by now, which the next round meets. Unavailable: a disruption budget, or a server that is busy.
        if (fault?.code === "conflict") return undefined;
        if (fault?.code === "unavailable") return statusMessage(error) ?? describeFault(fault);
        throw error;
      }
    },
    podsOn: async (name) => {
      const query = { fieldSelector: `spec.nodeName=${name}` };
      const { items } = await calls.list<V1Pod>({ apiVersion: "v1", plural: "pods" }, { ...options, query });
      return items.flatMap((pod) => keepPod(pod, "").on?.pod ?? []);
    },
    deleteNode: async ({ name, uid }) => {
      try {
        await unlessGone(calls.delete(NODES, name, { ...options, preconditions: { uid } }));
      } catch (error) {
        // Another node has the name by now.
        if (kubeFault(error)?.code !== "conflict") throw error;
      }
    },
  };
}
