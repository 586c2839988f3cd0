import type { NatsBus } from "@muster/bus";
import { bucketKeys, buckets, muster } from "@muster/proto";
import { openBucket, openView, protoCodec, type Bucket, type View } from "@muster/store";
import { isMarkFresh, type Health } from "@muster/health";
import { OWNER_KIND } from "../domain/build-pod.ts";
import { findContest, type Contest } from "../domain/find-overlap.ts";
import { findNodes, readSelector, type NodeSight } from "../domain/eligible-nodes.ts";
import type { ReplicaSet } from "../domain/replica-set.ts";
import type { Roll } from "../domain/roll.ts";
import type { Nodes, SetPod } from "../domain/set-snapshot.ts";
import type { Readable } from "./messages.ts";

export type StoredSet = { readonly name: string; readonly read: Readable<ReplicaSet>; readonly revision: number };

/** What changed: a set by its name, its pods, a rolling update by its id, or any node. */
export type WorldChange =
  { readonly kind: "set" | "pods" | "roll"; readonly name: string } | { readonly kind: "nodes" };

/** All that is followed, as it was last seen. */
export type World = AsyncDisposable & {
  /** Also those that cannot be read, in the order of their names. */
  sets(): readonly StoredSet[];
  set(name: string): StoredSet | undefined;
  rolls(): readonly { readonly id: string; readonly read: Readable<Roll>; readonly revision: number }[];
  /** Undefined: the watcher has been silent, or knows of no node at all, and nothing is concluded about any node. */
  nodeSights(): readonly NodeSight[] | undefined;
  nodesFor(set: ReplicaSet): Nodes | undefined;
  /** Pods of the set, by name. */
  podsOf(set: string): ReadonlyMap<string, SetPod>;
  podState(set: string, pod: string): muster.watch.v1.PodState | undefined;
  /** Node -> name of its live pod of this pod id. */
  occupied(podId: string): ReadonlyMap<string, string>;
  /** Nodes with a live pod of the set's pod id, or a place for one, by another set. */
  takenFrom(set: ReplicaSet): ReadonlySet<string>;
  /** What the set leaves to older ones of its pod id. */
  contestFor(set: ReplicaSet): Contest;
  onChange(listener: (change: WorldChange) => void): () => void;
  /** What is not as fresh as it should be; undefined when all is. */
  staleness(): string | undefined;
};

export type WorldOptions = {
  readonly connection: NatsBus["connection"];
  readonly sets: Bucket<Readable<ReplicaSet>, ReplicaSet>;
  readonly rolls: Bucket<Readable<Roll>, Roll>;
  readonly nodesFreshMs: number;
  readonly nodeGraceMs: number;
  readonly now: () => number;
  /** The clock that the watcher has, too: its marks are compared with it. */
  readonly wallNow: () => number;
  readonly onProblem: (what: string, error: unknown, retryInMs: number) => void;
};

const STALE_MS = 30_000;

/** Follows sets, rolling updates, and through the watcher's buckets nodes and pods. */
export async function openWorld(options: WorldOptions): Promise<World> {
  const { connection, now, wallNow, nodesFreshMs, nodeGraceMs } = options;
  const { NodeState, NodesComplete, PodState } = muster.watch.v1;
  await using undo = new AsyncDisposableStack();
  const followed = (what: string) => ({
    onProblem: (error: unknown, retryInMs: number) => options.onProblem(what, error, retryInMs),
  });
  const nodeStates = await openBucket(connection, { name: buckets.nodes, codec: protoCodec(NodeState) });
  const marks = await openBucket(connection, { name: buckets.nodes, codec: protoCodec(NodesComplete) });
  const podStates = await openBucket(connection, { name: buckets.pods, codec: protoCodec(PodState) });
  const sets = undo.use(await openView(options.sets, followed("sets")));
  const rolls = undo.use(await openView(options.rolls, followed("rolling updates")));
  const nodes = undo.use(await openView(nodeStates, followed("nodes")));
  const mark = undo.use(await openView(marks, { ...followed("nodes"), filter: bucketKeys.nodesComplete }));
  const pods = undo.use(await openView(podStates, { ...followed("pods"), filter: `${OWNER_KIND}.>` }));
  const sights = followSights(nodes, now);
  const isCurrent = (): boolean =>
    nodes.ageMs() === 0 &&
    pods.ageMs() === 0 &&
    isMarkFresh(mark.get(bucketKeys.nodesComplete)?.value.atMs, nodesFreshMs, wallNow());
  const nodeSights = (): readonly NodeSight[] | undefined =>
    isCurrent() && sights().length > 0 ? sights() : undefined;
  // Every pass asks for these, and there are as many passes as sets.
  const podsOfSet = grouped(pods, (_, key) => key.split(".")[1]);
  const podsOfId = grouped(pods, ({ component }) => component);
  const setsOfId = grouped(sets, (read) => ("record" in read ? read.record.spec.podId : undefined));
  const recordsOfId = (podId: string) =>
    setsOfId(podId).flatMap(({ value }) => ("record" in value ? [value.record] : []));
  const livePods = (podId: string) => podsOfId(podId).flatMap(({ value }) => (isLive(value) ? [value] : []));
  const opened = undo.move();
  return {
    sets: () => sets.entries().map(storedSet),
    set: (name) => {
      const entry = sets.get(name);
      return entry && storedSet(entry);
    },
    rolls: () => rolls.entries().map(({ key, value, revision }) => ({ id: key, read: value, revision })),
    nodeSights,
    nodesFor: ({ spec, machines }) => {
      const sights = nodeSights();
      const selector = readSelector("spec.node_selector", spec.nodeSelector);
      const granted = new Set(machines.flatMap(({ grant }) => grant?.node ?? []));
      const among = spec.pool === undefined ? {} : { among: granted };
      return sights && findNodes(selector, sights, { nowMs: now(), graceMs: nodeGraceMs, ...among });
    },
    podsOf: (set) => readPods(podsOfSet(set), (wallMs) => now() - Math.max(0, wallNow() - wallMs)),
    podState: (set, pod) => pods.get(`${OWNER_KIND}.${set}.${pod}`)?.value,
    occupied: (podId) => new Map(livePods(podId).map(({ node, pod }) => [node, pod])),
    takenFrom: ({ name, spec: { podId } }) => {
      return new Set([
        ...recordsOfId(podId)
          .filter((other) => other.name !== name)
          .flatMap(({ placements }) => placements.map(({ node }) => node)),
        ...livePods(podId)
          .filter(({ owner }) => owner?.id !== name)
          .map(({ node }) => node),
      ]);
    },
    contestFor: (set) => findContest(set, recordsOfId(set.spec.podId), nodeSights() ?? []),
    onChange: (listener) => {
      const stops = [
        sets.onChange((name) => listener({ kind: "set", name })),
        rolls.onChange((name) => listener({ kind: "roll", name })),
        pods.onChange((key) => listener({ kind: "pods", name: key.split(".")[1] ?? "" })),
        // The mark is renewed twice a minute and more: a look at every set for it is no more than the resync.
        nodes.onChange(() => listener({ kind: "nodes" })),
      ];
      return () => {
        for (const stop of stops) stop();
      };
    },
    staleness: () => {
      const ageMs = Math.max(sets.ageMs(), rolls.ageMs(), nodes.ageMs(), pods.ageMs());
      return ageMs > STALE_MS ? `sets, rolling updates, nodes or pods were last current ${ageMs} ms ago` : undefined;
    },
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}

function storedSet({ key, value, revision }: ReturnType<View<Readable<ReplicaSet>>["entries"]>[number]): StoredSet {
  return { name: key, read: value, revision };
}

/** The nodes, made anew only once one has changed. */
function followSights(nodes: View<muster.watch.v1.NodeState>, now: () => number): () => readonly NodeSight[] {
  const unready = followUnready(nodes, now);
  let sights: readonly NodeSight[] | undefined;
  nodes.onChange(() => (sights = undefined));
  return () => (sights ??= nodes.entries().flatMap(({ value }) => sightOf(value, unready) ?? []));
}

/** Since when each node that is not ready has been seen so. */
function followUnready(nodes: View<muster.watch.v1.NodeState>, now: () => number): ReadonlyMap<string, number> {
  const since = new Map<string, number>();
  const look = (name: string): void => {
    const state = nodes.get(name)?.value;
    if (state === undefined || state.ready || state.deleted) since.delete(name);
    else if (!since.has(name)) since.set(name, now());
  };
  for (const { key } of nodes.entries()) look(key);
  nodes.onChange(look);
  return since;
}

/** Undefined: it is gone, or the mark, which has no name. */
function sightOf(state: muster.watch.v1.NodeState, unready: ReadonlyMap<string, number>): NodeSight | undefined {
  const { name, labels, ready, schedulable, deleted } = state;
  if (name === "" || deleted) return undefined;
  return { name, labels, ready, schedulable, unreadySinceMs: unready.get(name) };
}

/** The entries of a view by what they belong to, without a look at all of them. */
function grouped<Value>(
  view: View<Value>,
  groupOf: (value: Value, key: string) => string | undefined,
): (group: string) => ViewEntry<Value>[] {
  const groups = new Map<string, Set<string>>();
  const known = new Map<string, string>();
  const look = (key: string): void => {
    const entry = view.get(key);
    const group = entry && groupOf(entry.value, key);
    const before = known.get(key);
    if (group === before) return;
    if (before !== undefined) {
      const left = groups.get(before);
      left?.delete(key);
      if (left?.size === 0) groups.delete(before);
      known.delete(key);
    }
    if (group !== undefined) {
      known.set(key, group);
      groups.set(group, (groups.get(group) ?? new Set()).add(key));
    }
  };
  for (const { key } of view.entries()) look(key);
  view.onChange(look);
  return (group) => [...(groups.get(group) ?? [])].flatMap((key) => view.get(key) ?? []);
}

type ViewEntry<Value> = ReturnType<View<Value>["entries"]>[number];

/** `ownTime` says in the farm's own time when something was that the watcher saw by the wall clock. */
function readPods(
  entries: readonly ViewEntry<muster.watch.v1.PodState>[],
  ownTime: (wallMs: number) => number,
): ReadonlyMap<string, SetPod> {
  return new Map(
    entries.flatMap(({ value }): [string, SetPod][] => {
      const { pod: name, uid, node, health, deleting, deleted, observedAtMs } = value;
      const sinceMs = ownTime(observedAtMs);
      return deleted ? [] : [[name, { name, uid, node, health: HEALTH[health], sinceMs, deleting }]];
    }),
  );
}

function isLive({ node, deleted, health }: muster.watch.v1.PodState): boolean {
  const word = HEALTH[health];
  return node !== "" && !deleted && word !== "FAILED" && word !== "SUCCEEDED";
}

const HEALTH: Readonly<Record<muster.health.v1.Health, Health>> = {
  [muster.health.v1.Health.HEALTH_UNSPECIFIED]: "UNKNOWN",
  [muster.health.v1.Health.HEALTH_UNKNOWN]: "UNKNOWN",
  [muster.health.v1.Health.HEALTH_READY]: "READY",
  [muster.health.v1.Health.HEALTH_NOT_READY]: "NOT_READY",
  [muster.health.v1.Health.HEALTH_SUCCEEDED]: "SUCCEEDED",
  [muster.health.v1.Health.HEALTH_FAILED]: "FAILED",
};
