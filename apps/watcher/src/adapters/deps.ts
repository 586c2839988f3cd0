import type { KubeConfig, V1Node, V1Pod } from "@kubernetes/client-node";
import { makeBell } from "@muster/backoff";
import type { NatsBus } from "@muster/bus";
import { openInformer, listWatch, type Informer, type InformerTiming } from "@muster/kube";
import { bucketKeys, buckets, labels } from "@muster/proto";
import type { Logger } from "@muster/service";
import { openBucket, openView, type Bucket, type Codec, type View } from "@muster/store";
import type { Config } from "../config.ts";
import type { NodeState, WatchedNode } from "../domain/node-state.ts";
import { isOwned, type ClusterPod } from "../domain/node-use.ts";
import type { NodesMark } from "../domain/plan-mark.ts";
import type { PublishStep } from "../domain/plan-publish.ts";
import type { PodState } from "../domain/pod-state.ts";
import type { WatcherDeps, WriteOutcome } from "../keep-published.ts";
import { buildGroupRules, makePodReader, toWatchedNode, type GroupRules } from "./kube-objects.ts";
import { type NodeRecord, nodeRecordCodec, podCodec } from "./messages.ts";
import { makeNodesPublication } from "./nodes-publication.ts";
import { makeObserver, type ClusterObserver } from "./observer.ts";
import { makePublication, type StatePublication } from "./publication.ts";
import { runInPassSpan, makeWatcherMetrics } from "./telemetry.ts";

/** Freshness of this replica's views. */
type WatcherStatus = {
  readonly ageMs: number;
  readonly synced: boolean;
  readonly pods: number;
  readonly nodes: number;
};

type OpenWatcher = AsyncDisposable & {
  readonly deps: WatcherDeps;
  status(): WatcherStatus;
  /** Returns the state that is missing before the published states are reliable; undefined if no state is missing. */
  notReady(): string | undefined;
};

type WatcherWorld = {
  readonly kube: KubeConfig;
  readonly bus: Pick<NatsBus, "connection">;
  readonly logger: Logger;
  /** Pauses and limits of the informers; an absent field selects its default. */
  readonly timing?: Partial<InformerTiming>;
};

/** Opens the watcher's dependencies, and follows the cluster and the buckets until disposed. Rejects with FaultError if the buckets cannot be opened. */
export async function openWatcher(
  config: Pick<Config, "kube" | "ageLimitMs" | "systemNamespaces" | "policy">,
  world: WatcherWorld,
): Promise<OpenWatcher> {
  const { logger, bus, kube, timing = {} } = world;
  const follow: Follow = { kube, logger, timing, relistEveryMs: config.kube.relistEveryMs };
  await using stack = new AsyncDisposableStack();
  const wakeup = makeBell();
  const pods = stack.use(followPods(follow, buildGroupRules(config, kube)));
  const nodes = stack.use(followNodes(follow));
  // The first list of an empty cluster changes no cache, but proves that the published objects no longer exist.
  for (const followed of [pods, nodes]) followed.synced.then(wakeup.ring, () => undefined);

  const publications = await openPublications(stack, bus, logger);
  const { publishedPods, publishedNodes, podSide, nodeSide, markSide } = publications;
  const observer = makeObserver({
    pods,
    nodes,
    podSide,
    nodeSide,
    markSide,
    podView: publishedPods.view,
    nodeView: publishedNodes.view,
    now: Date.now,
    namespace: config.policy.namespace,
    onDropped: ({ pod }) =>
      logger.warn({ pod: pod.name, uid: pod.uid }, "too many removed pods wait to be published; dropped one"),
  });
  observer.onChange(wakeup.ring);
  const metrics = stack.use(makeWatcherMetrics({ pods: pods.ageMs, nodes: nodes.ageMs }));
  const whatIsMissing = (): string | undefined =>
    missing("pods", pods, config.ageLimitMs) ?? missing("nodes", nodes, config.ageLimitMs);
  const opened = stack.move();
  return {
    deps: {
      postpone: observer.postpone,
      dueInMs: observer.dueInMs,
      observe: (scope) => {
        const blind = whatIsMissing();
        return blind === undefined ? observer.observe(scope) : { blind };
      },
      ...writersOf(publications, { observer, metrics, logger }),
      recorded: runInPassSpan,
      blind: (reason) => logger.warn({ reason }, "not publishing"),
      wait: wakeup.wait,
      monotonicMs: () => performance.now(),
    },
    status: () => ({
      ageMs: Math.max(pods.ageMs(), nodes.ageMs()),
      synced: pods.resourceVersion() !== undefined && nodes.resourceVersion() !== undefined,
      pods: pods.list().filter(isOwned).length,
      nodes: nodes.list().length,
    }),
    notReady: () => whatIsMissing() ?? stale(publishedPods.view, config) ?? stale(publishedNodes.view, config),
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}

/** Returns the writers of a pass, which count each write. A key whose write is lost or failed is in the next snapshot. */
function writersOf(
  { podSide, nodeSide, markSide }: Pick<Publications, "podSide" | "nodeSide" | "markSide">,
  by: {
    readonly observer: Pick<ClusterObserver, "recheck">;
    readonly metrics: ReturnType<typeof makeWatcherMetrics>;
    readonly logger: Logger;
  },
): Pick<WatcherDeps, "writePod" | "writeNode" | "writeMark"> {
  const { observer, metrics, logger } = by;
  const counted = async <State>(
    bucket: "pods" | "nodes",
    side: StatePublication<State>,
    step: PublishStep<State>,
  ): Promise<WriteOutcome> => {
    const outcome = await side.write(step);
    if (outcome === "lost" || outcome === "failed") observer.recheck(bucket, step.key);
    metrics.wrote(bucket, step.because, outcome);
    logger.debug({ bucket, key: step.key, do: step.kind, because: step.because, outcome }, "published");
    return outcome;
  };
  return {
    writePod: (step) => counted("pods", podSide, step),
    writeNode: (step) => counted("nodes", nodeSide, step),
    writeMark: ({ atMs, expectedRevision, because }) => {
      const to = { key: bucketKeys.nodesComplete, state: { atMs }, expectedRevision };
      logger.debug({ because }, "marking the nodes as complete");
      return markSide.write({ kind: "put", ...to, because: because === "absent" ? "new" : "changed" });
    },
  };
}

type Follow = {
  readonly kube: KubeConfig;
  readonly logger: Logger;
  readonly timing: Partial<InformerTiming>;
  readonly relistEveryMs: number;
};

/** Follows every pod of the cluster, because foreign pods use nodes as well. */
function followPods({ kube, logger, timing, relistEveryMs }: Follow, rules: GroupRules): Informer<ClusterPod> {
  const readPod = makePodReader(rules);
  return openInformer<V1Pod, ClusterPod>({
    source: listWatch<V1Pod>(kube, "/api/v1/pods"),
    project: (pod) => {
      const kept = readPod(pod);
      const isWork = kept.namespace === rules.workNamespace;
      if (isWork && !isOwned(kept) && pod.metadata?.labels?.[labels.owner] !== undefined) {
        logger.debug({ pod: kept.name }, "publishing no state of a pod whose owner is no DNS label");
      }
      return kept;
    },
    relistEveryMs,
    timing,
    onError: (error, retryInMs) => logger.warn({ err: error, resource: "pods", retryInMs }, "watching failed"),
  });
}

function followNodes({ kube, logger, timing, relistEveryMs }: Follow): Informer<WatchedNode> {
  return openInformer<V1Node, WatchedNode>({
    source: listWatch<V1Node>(kube, "/api/v1/nodes"),
    project: toWatchedNode,
    relistEveryMs,
    timing,
    onError: (error, retryInMs) => logger.warn({ err: error, resource: "nodes", retryInMs }, "watching failed"),
  });
}

type Publications = {
  readonly publishedPods: PublishedBucket<PodState>;
  readonly publishedNodes: PublishedBucket<NodeRecord>;
  readonly podSide: StatePublication<PodState>;
  readonly nodeSide: StatePublication<NodeState>;
  readonly markSide: StatePublication<NodesMark>;
};

/** Opens the buckets of pods and nodes, and their writers. */
async function openPublications(
  stack: AsyncDisposableStack,
  bus: Pick<NatsBus, "connection">,
  logger: Logger,
): Promise<Publications> {
  const writingFailed =
    (bucket: string) =>
    (error: unknown, { key, because }: { readonly key: string; readonly because: string }): void =>
      logger.warn({ err: error, bucket, key, because }, "writing failed");
  const publishedPods = await openPublished(stack, bus, { name: buckets.pods, codec: podCodec, logger });
  const publishedNodes = await openPublished(stack, bus, { name: buckets.nodes, codec: nodeRecordCodec, logger });
  const podSide = makePublication(publishedPods.bucket, publishedPods.view, writingFailed(buckets.pods));
  const { nodes: nodeSide, mark: markSide } = makeNodesPublication(
    publishedNodes.bucket,
    publishedNodes.view,
    writingFailed(buckets.nodes),
  );
  return { publishedPods, publishedNodes, podSide, nodeSide, markSide };
}

type PublishedBucket<State> = { readonly bucket: Bucket<State>; readonly view: View<State> };

async function openPublished<State>(
  stack: AsyncDisposableStack,
  bus: Pick<NatsBus, "connection">,
  options: {
    readonly name: string;
    readonly codec: Codec<State>;
    readonly logger: Logger;
  },
): Promise<PublishedBucket<State>> {
  const { name, codec, logger } = options;
  const bucket = await openBucket(bus.connection, {
    name,
    codec,
    onDecodeError: (error) => logger.error({ err: error, bucket: name }, "a published state cannot be read"),
  });
  return {
    bucket,
    view: stack.use(
      await openView(bucket, {
        onProblem: (error, retryInMs) =>
          logger.warn({ err: error, bucket: name, retryInMs }, "a watch is interrupted, and is retried"),
      }),
    ),
  };
}

function missing(what: string, followed: Informer<unknown>, limitMs: number): string | undefined {
  if (followed.resourceVersion() === undefined) return `the first list of ${what} is not complete`;
  const ageMs = Math.round(followed.ageMs());
  return ageMs > limitMs ? `nothing was heard of ${what} for ${ageMs} ms; the limit is ${limitMs}` : undefined;
}

function stale(view: View<unknown>, { ageLimitMs }: Pick<Config, "ageLimitMs">): string | undefined {
  const ageMs = Math.round(view.ageMs());
  return ageMs > ageLimitMs ? `the published states were not readable for ${ageMs} ms` : undefined;
}
