import { makeBell } from "@muster/backoff";
import { bucketKeys } from "@muster/proto";
import { openBucketView } from "./views.ts";
import { readConfig } from "@muster/watcher/config";
import { makePodReader, toWatchedNode } from "@muster/watcher/kube-objects";
import { nodeRecordCodec, podCodec } from "@muster/watcher/messages";
import { makeNodesPublication } from "@muster/watcher/nodes-publication";
import { makeObserver } from "@muster/watcher/observer";
import type { PublishStep } from "@muster/watcher/plan-publish";
import { makePublication, type StatePublication } from "@muster/watcher/publication";
import { keepPublished, type WatcherDeps, type WriteOutcome } from "@muster/watcher/keep-published";
import { makeSimInformer } from "../sim-informer.ts";
import { makeTraceLogger, type World } from "../world.ts";
import type { Replica } from "./replica.ts";

/** Informers that faults can interrupt, by replica. */
export type InterruptibleInformers = Map<Replica, { interrupt(): void }[]>;

export async function runWatcher(world: World, replica: Replica, informers: InterruptibleInformers): Promise<void> {
  const { time, network, cluster } = world;
  const { process, gone, stop } = replica;
  const { systemNamespaces, policy, ageLimitMs } = readConfig({});
  const logger = makeTraceLogger(world, process);
  const follow = { time, network, cluster, process, gone: gone.signal };
  const wakeup = makeBell();
  const pods = makeSimInformer(follow, "pods", makePodReader({ systemNamespaces, workNamespace: policy.namespace }));
  const nodes = makeSimInformer(follow, "nodes", toWatchedNode);
  informers.set(replica, [pods, nodes]);
  const podBucket = await openBucketView(world, world.podStates, podCodec, gone.signal);
  const nodeBucket = await openBucketView(world, world.nodeStates, nodeRecordCodec, gone.signal);
  const failed = (_error: unknown, { key }: { readonly key: string }): void => logger.warn({ key }, "writing failed");
  const podSide = makePublication(podBucket.bucket, podBucket.view, failed);
  const { nodes: nodeSide, mark: markSide } = makeNodesPublication(nodeBucket.bucket, nodeBucket.view, failed);
  const observer = makeObserver({
    pods,
    nodes,
    podSide,
    nodeSide,
    markSide,
    podView: podBucket.view,
    nodeView: nodeBucket.view,
    now: Date.now,
  });
  observer.onChange(wakeup.ring);
  const writing =
    <State>(kind: "pods" | "nodes", side: StatePublication<State>) =>
    async (step: PublishStep<State>): Promise<WriteOutcome> => {
      const outcome = await side.write(step);
      if (outcome === "lost" || outcome === "failed") observer.recheck(kind, step.key);
      logger.info({ key: step.key, do: step.kind, because: step.because, outcome }, "published");
      return outcome;
    };
  const missing = (): string | undefined => {
    for (const followed of [pods, nodes])
      if (followed.resourceVersion() === undefined || followed.ageMs() > ageLimitMs) return "no current view";
    return undefined;
  };
  const deps: WatcherDeps = {
    observe: (scope) => {
      const blind = missing();
      return blind === undefined ? observer.observe(scope) : { blind };
    },
    writePod: writing("pods", podSide),
    writeNode: writing("nodes", nodeSide),
    writeMark: ({ atMs, expectedRevision, because }) =>
      markSide.write({
        kind: "put",
        key: bucketKeys.nodesComplete,
        state: { atMs },
        expectedRevision,
        because: because === "absent" ? "new" : "changed",
      }),
    recorded: (_plan, write) => write(),
    blind: (reason) => logger.warn({ reason }, "not publishing"),
    postpone: observer.postpone,
    dueInMs: observer.dueInMs,
    wait: wakeup.wait,
    monotonicMs: () => time.nowMs,
  };
  await keepPublished(deps, policy, stop.signal);
}
