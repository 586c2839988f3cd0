import type { KubeConfig, V1Pod } from "@kubernetes/client-node";
import type { NatsBus } from "@muster/bus";
import { openInformer, listWatch, type KubeCalls } from "@muster/kube";
import { bucketKeys, buckets, muster } from "@muster/proto";
import { openBucket, openView, makeProtoCodec } from "@muster/store";
import { followMark } from "@muster/watch";
import type { PendingPod } from "../domain/pack-pods.ts";
import type { PodsByNode } from "../domain/sightings.ts";
import type { Cluster } from "../scaler.ts";
import { makeNodeCalls } from "./node-calls.ts";
import { readNode } from "./read-node.ts";
import { keepPod, type KeptPod } from "./read-pod.ts";

export type OpenCluster = AsyncDisposable &
  Cluster & {
    /** Lists pods for which no node has room. */
    pendingPods(): readonly PendingPod[];
    /** Resolves when all pods are known. */
    readonly synced: Promise<void>;
    /** Names the stale sources; undefined when all are fresh. */
    staleness(): string | undefined;
  };

type ClusterOptions = {
  readonly kube: KubeConfig;
  readonly calls: KubeCalls;
  readonly connection: NatsBus["connection"];
  readonly scaler: string;
  readonly poolLabel: string;
  /** The maximum age of the watcher's mark that all nodes are known. */
  readonly nodesFreshMs: number;
  readonly timeoutMs: number;
  readonly now: () => number;
  readonly onProblem: (what: string, error: unknown, retryInMs: number) => void;
};

/** The limit exceeds a minute, because a quiet API server sends one bookmark per minute. */
const PODS_FRESH_MS = 180_000;

/** Follows nodes through the watcher's bucket, and pods through the API server, which also receives changes of nodes. */
export async function openCluster(options: ClusterOptions): Promise<OpenCluster> {
  const { kube, connection, scaler, poolLabel, nodesFreshMs, now, onProblem } = options;
  const { NodeState, NodesComplete } = muster.watch.v1;
  const followed = { onProblem: (error: unknown, retryInMs: number) => onProblem("nodes", error, retryInMs) };
  await using undo = new AsyncDisposableStack();
  const states = await openBucket(connection, { name: buckets.nodes, codec: makeProtoCodec(NodeState) });
  const marks = await openBucket(connection, { name: buckets.nodes, codec: makeProtoCodec(NodesComplete) });
  const view = undo.use(await openView(states, followed));
  const mark = undo.use(await openView(marks, { ...followed, filter: bucketKeys.nodesComplete }));
  const pods = undo.use(
    openInformer<V1Pod, KeptPod>({
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
      return ageMs > PODS_FRESH_MS ? `the API server last answered ${Math.round(ageMs)} ms ago` : undefined;
    },
    ...makeNodeCalls(options.calls, options.timeoutMs),
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}

function groupByNode(pods: readonly KeptPod[]): PodsByNode {
  const on = pods.flatMap((pod) => pod.on ?? []);
  return new Map([...Map.groupBy(on, ({ node }) => node)].map(([node, all]) => [node, all.map(({ pod }) => pod)]));
}
