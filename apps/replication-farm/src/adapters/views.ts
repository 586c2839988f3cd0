import type { NatsBus } from "@muster/bus";
import { bucketKeys, buckets, enums, muster } from "@muster/proto";
import { readBucketRevision, openBucket, openView, makeProtoCodec, type Bucket, type View } from "@muster/store";
import { followMark } from "@muster/watch";
import type { Health } from "@muster/health";
import { readLabelSelector } from "@muster/names";
import { OWNER_KIND } from "../domain/build-pod.ts";
import { findContestedNodes, type ContestedNodes } from "../domain/find-overlap.ts";
import { findNodes, type ObservedNode, type ObservedNodes } from "../domain/eligible-nodes.ts";
import type { ForeignPods } from "./foreign-pods.ts";
import type { ReplicaSet } from "../domain/replica-set.ts";
import type { Rollout } from "../domain/rollout.ts";
import type { SetPod } from "../domain/set-snapshot.ts";
import type { StoredValue } from "./messages.ts";
import { onNodeChange } from "./on-node-change.ts";

export type StoredSet = { readonly name: string; readonly read: StoredValue<ReplicaSet>; readonly revision: number };

type StoredRollout = { readonly id: string; readonly read: StoredValue<Rollout>; readonly revision: number };

/** A change of a set (by name), its pods, a rolling update (by id), foreign pods of a pod id, or any node. */
export type WorldChange =
  | { readonly kind: "set" | "pods" | "rollout"; readonly name: string }
  | { readonly kind: "foreign"; readonly podId: string }
  | { readonly kind: "nodes" };

/** The latest state of all objects that a farm follows. */
export type World = AsyncDisposable & {
  /** All sets including unreadable ones, ordered by name. */
  sets(): readonly StoredSet[];
  set(name: string): StoredSet | undefined;
  /** The readable sets of this pod id. */
  setsOf(podId: string): readonly ReplicaSet[];
  /** As `setsOf`, with every set that was stored before the call. Rejects as a bucket does. */
  storedSetsOf(podId: string): Promise<readonly ReplicaSet[]>;
  rollouts(): readonly StoredRollout[];
  rollout(id: string): StoredRollout | undefined;
  /** The readable updates that move replicas from or to this set. */
  rolloutsOf(set: string): readonly Rollout[];
  /** Undefined: the watcher is silent, or knows no node, so no rule decides about any node. */
  observedNodes(): readonly ObservedNode[] | undefined;
  nodesFor(set: ReplicaSet): ObservedNodes | undefined;
  /** The pods of the set, by name. */
  podsOf(set: string): ReadonlyMap<string, SetPod>;
  podState(set: string, pod: string): muster.watch.v1.PodState | undefined;
  /** Node to the name of its live pod of this pod id, whatever its owner. */
  occupied(podId: string): ReadonlyMap<string, string>;
  /** Nodes where another set has a live pod, or a placement, of the set's pod id. */
  takenFrom(set: ReplicaSet): ReadonlySet<string>;
  /** The nodes that the set yields to older sets of its pod id. */
  contestFor(set: ReplicaSet): ContestedNodes;
  /** The sets and rolling updates that a change of this one may affect: itself, sets of the same pod id, and both sides of a rolling update. */
  concernedBy(name: string): ReadonlySet<string>;
  onChange(listener: (change: WorldChange) => void): () => void;
  /** The view that is too old; undefined when all are fresh. */
  staleness(): string | undefined;
};

type WorldOptions = {
  readonly connection: NatsBus["connection"];
  readonly sets: Bucket<StoredValue<ReplicaSet>, ReplicaSet>;
  readonly rollouts: Bucket<StoredValue<Rollout>, Rollout>;
  readonly foreign: Omit<ForeignPods, keyof AsyncDisposable>;
  readonly nodesFreshMs: number;
  readonly nodeGraceMs: number;
  readonly now: () => number;
  /** Wall clock, comparable with the marks that the watcher writes. */
  readonly wallNow: () => number;
  readonly onProblem: (what: string, error: unknown, retryInMs: number) => void;
};

const STALE_MS = 30_000;
/** A view normally lags its bucket by milliseconds; after this time the bucket itself is read. */
const CATCH_UP_MS = 500;
/** The API server sends a bookmark about once a minute. */
const FOREIGN_STALE_MS = 180_000;

/** Follows sets, rolling updates, pods that belong to no set, and through the watcher's buckets nodes and pods. */
export async function openWorld(options: WorldOptions): Promise<World> {
  const { connection, now, wallNow, nodesFreshMs, nodeGraceMs, foreign } = options;
  const { NodeState, NodesComplete, PodState } = muster.watch.v1;
  await using undo = new AsyncDisposableStack();
  const followed = (what: string) => ({
    onProblem: (error: unknown, retryInMs: number) => options.onProblem(what, error, retryInMs),
  });
  const nodeStates = await openBucket(connection, { name: buckets.nodes, codec: makeProtoCodec(NodeState) });
  const marks = await openBucket(connection, { name: buckets.nodes, codec: makeProtoCodec(NodesComplete) });
  const podStates = await openBucket(connection, { name: buckets.pods, codec: makeProtoCodec(PodState) });
  const sets = undo.use(await openView(options.sets, followed("sets")));
  const rollouts = undo.use(await openView(options.rollouts, followed("rolling updates")));
  const nodes = undo.use(await openView(nodeStates, followed("nodes")));
  const mark = undo.use(await openView(marks, { ...followed("nodes"), filter: bucketKeys.nodesComplete }));
  const pods = undo.use(await openView(podStates, { ...followed("pods"), filter: `${OWNER_KIND}.>` }));
  const sights = followNodes(nodes, now);
  const isMarked = followMark(mark, () => mark.get(bucketKeys.nodesComplete)?.value.atMs, { freshMs: nodesFreshMs });
  const isCurrent = (): boolean =>
    nodes.ageMs() === 0 && pods.ageMs() === 0 && foreign.isKnown() && isMarked(wallNow());
  const observedNodes = (): readonly ObservedNode[] | undefined =>
    isCurrent() && sights().length > 0 ? sights() : undefined;
  // Every pass needs these indexes, and a resync makes one pass per set.
  const records = indexRecords(options, sets, rollouts);
  const podsOfSet = grouped(pods, (_, key) => key.split(".")[1]);
  const podsOfId = grouped(pods, ({ component }) => component);
  const livePods = (podId: string) => podsOfId(podId).flatMap(({ value }) => (isLive(value) ? [value] : []));
  const opened = undo.move();
  return {
    ...records,
    observedNodes,
    nodesFor: ({ spec, machines }) => {
      const sights = observedNodes();
      const selector = readLabelSelector("spec.node_selector", spec.nodeSelector);
      const granted = new Set(machines.flatMap(({ grant }) => grant?.node ?? []));
      const among = spec.pool === undefined ? {} : { among: granted };
      const by = { nowMs: now(), graceMs: nodeGraceMs, foreign: foreign.on(spec.podId), ...among };
      return sights && findNodes(selector, sights, by);
    },
    podsOf: (set) => readPods(podsOfSet(set), (wallMs) => now() - Math.max(0, wallNow() - wallMs)),
    podState: (set, pod) => pods.get(`${OWNER_KIND}.${set}.${pod}`)?.value,
    occupied: (podId) =>
      new Map([...foreign.on(podId), ...livePods(podId).map(({ node, pod }) => [node, pod] as const)]),
    takenFrom: ({ name, spec: { podId } }) =>
      new Set([
        ...records
          .setsOf(podId)
          .filter((other) => other.name !== name)
          .flatMap(({ placements }) => placements.map(({ node }) => node)),
        ...livePods(podId)
          .filter(({ owner }) => owner?.id !== name)
          .map(({ node }) => node),
      ]),
    contestFor: (set) => findContestedNodes(set, records.setsOf(set.spec.podId), observedNodes() ?? []),
    onChange: (listener) => {
      const stops = [
        sets.onChange((name) => listener({ kind: "set", name })),
        rollouts.onChange((name) => listener({ kind: "rollout", name })),
        pods.onChange((key) => listener({ kind: "pods", name: key.split(".")[1] ?? "" })),
        // The watcher renews the mark every half minute; passes over all sets for it would only repeat the resync.
        onNodeChange(nodes, () => listener({ kind: "nodes" })),
        foreign.onChange((podId) => listener({ kind: "foreign", podId })),
      ];
      return () => {
        for (const stop of stops) stop();
      };
    },
    staleness: () => describeStaleness([sets, rollouts, nodes, pods], foreign),
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}

function describeStaleness(
  views: readonly Pick<View<unknown>, "ageMs">[],
  foreign: WorldOptions["foreign"],
): string | undefined {
  const ageMs = Math.max(...views.map((view) => view.ageMs()));
  if (ageMs > STALE_MS) return `sets, rolling updates, nodes or pods were last current ${ageMs} ms ago`;
  if (!foreign.isKnown()) return "the first list of pods at the API server is not complete";
  const heardMs = Math.round(foreign.ageMs());
  return heardMs > FOREIGN_STALE_MS ? `the API server last reported pods ${heardMs} ms ago` : undefined;
}

type RecordsIndex = Pick<
  World,
  "sets" | "set" | "setsOf" | "storedSetsOf" | "rollouts" | "rollout" | "rolloutsOf" | "concernedBy"
>;

/** Indexes of the records, so that the cost of an event or request does not grow with all records. */
function indexRecords(
  options: Pick<WorldOptions, "connection" | "sets">,
  sets: View<StoredValue<ReplicaSet>>,
  rollouts: View<StoredValue<Rollout>>,
): RecordsIndex {
  const setsOfId = grouped(sets, (read) => ("record" in read ? read.record.spec.podId : undefined));
  const setsInRollout = grouped(sets, (read) => ("record" in read ? read.record.rollout : undefined));
  const rolloutsFrom = grouped(rollouts, (read) => ("record" in read ? read.record.oldSet : undefined));
  const rolloutsTo = grouped(rollouts, (read) => ("record" in read ? read.record.newSet : undefined));
  const rolloutsOf = (set: string) => [...rolloutsFrom(set), ...rolloutsTo(set)];
  const recordsOfId = (podId: string) => readable(setsOfId(podId));
  const podIdOf = (name: string): string | undefined => readable([sets.get(name)])[0]?.spec.podId;
  return {
    sets: () => sets.entries().map(storedSet),
    set: (name) => {
      const entry = sets.get(name);
      return entry && storedSet(entry);
    },
    setsOf: recordsOfId,
    storedSetsOf: async (podId) => {
      const revision = await readBucketRevision(options.connection, options.sets.name);
      if (await hasReached(sets, revision)) return recordsOfId(podId);
      return readable(await options.sets.list()).filter(({ spec }) => spec.podId === podId);
    },
    rollouts: () => rollouts.entries().map(storedRollout),
    rollout: (id) => {
      const entry = rollouts.get(id);
      return entry && storedRollout(entry);
    },
    rolloutsOf: (set) => readable(rolloutsOf(set)),
    concernedBy: (name) => {
      const podId = podIdOf(name);
      const entries = [...(podId === undefined ? [] : setsOfId(podId)), ...setsInRollout(name), ...rolloutsOf(name)];
      return new Set([name, ...entries.map(({ key }) => key)]);
    },
  };
}

function storedSet({ key, value, revision }: ReturnType<View<StoredValue<ReplicaSet>>["entries"]>[number]): StoredSet {
  return { name: key, read: value, revision };
}

function storedRollout({
  key,
  value,
  revision,
}: ReturnType<View<StoredValue<Rollout>>["entries"]>[number]): StoredRollout {
  return { id: key, read: value, revision };
}

function readable<Record>(entries: readonly ({ readonly value: StoredValue<Record> } | undefined)[]): Record[] {
  return entries.flatMap((entry) => (entry !== undefined && "record" in entry.value ? [entry.value.record] : []));
}

/**
 * Returns whether the view reaches this revision within CATCH_UP_MS. It does not while the view is interrupted, or if the last write was a deletion whose
 * marker has expired.
 */
async function hasReached(view: View<unknown>, revision: number): Promise<boolean> {
  const isThere = (): boolean => view.ageMs() === 0 && view.revision() >= revision;
  if (isThere()) return true;
  const reached = Promise.withResolvers<boolean>();
  const giveUp = setTimeout(() => reached.resolve(false), CATCH_UP_MS);
  const stop = view.onChange(() => {
    if (isThere()) reached.resolve(true);
  });
  try {
    return await reached.promise;
  } finally {
    clearTimeout(giveUp);
    stop();
  }
}

/** Returns the nodes, rebuilt only after a change. */
function followNodes(nodes: View<muster.watch.v1.NodeState>, now: () => number): () => readonly ObservedNode[] {
  const unready = followUnready(nodes, now);
  let sights: readonly ObservedNode[] | undefined;
  onNodeChange(nodes, () => (sights = undefined));
  return () => (sights ??= nodes.entries().flatMap(({ value }) => observedNode(value, unready) ?? []));
}

/** Tracks since when each node has not been ready. */
function followUnready(nodes: View<muster.watch.v1.NodeState>, now: () => number): ReadonlyMap<string, number> {
  const since = new Map<string, number>();
  const update = (name: string): void => {
    const state = nodes.get(name)?.value;
    if (state === undefined || state.ready || state.deleted) since.delete(name);
    else if (!since.has(name)) since.set(name, now());
  };
  for (const { key } of nodes.entries()) update(key);
  nodes.onChange(update);
  return since;
}

/** Returns undefined if the node no longer exists, or if the entry is the mark, which has no name. */
function observedNode(
  state: muster.watch.v1.NodeState,
  unready: ReadonlyMap<string, number>,
): ObservedNode | undefined {
  const { name, labels, ready, schedulable, deleted } = state;
  if (name === "" || deleted) return undefined;
  return { name, labels, ready, schedulable, unreadySinceMs: unready.get(name) };
}

/** The entries of a view by group, without a scan of all entries. */
function grouped<Value>(
  view: View<Value>,
  groupOf: (value: Value, key: string) => string | undefined,
): (group: string) => ViewEntry<Value>[] {
  const groups = new Map<string, Set<string>>();
  const known = new Map<string, string>();
  const update = (key: string): void => {
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
  for (const { key } of view.entries()) update(key);
  view.onChange(update);
  return (group) => [...(groups.get(group) ?? [])].flatMap((key) => view.get(key) ?? []);
}

type ViewEntry<Value> = ReturnType<View<Value>["entries"]>[number];

/** `ownTime` converts the watcher's wall time to this farm's time. */
function readPods(
  entries: readonly ViewEntry<muster.watch.v1.PodState>[],
  ownTime: (wallMs: number) => number,
): ReadonlyMap<string, SetPod> {
  return new Map(
    entries.flatMap(({ value }): [string, SetPod][] => {
      const { pod: name, uid, node, health, deleting, deleted, observedAtMs } = value;
      const sinceMs = ownTime(observedAtMs);
      return deleted ? [] : [[name, { name, uid, node, health: toHealth(health), sinceMs, deleting }]];
    }),
  );
}

function isLive({ node, deleted, health }: muster.watch.v1.PodState): boolean {
  const word = toHealth(health);
  return node !== "" && !deleted && word !== "FAILED" && word !== "SUCCEEDED";
}

function toHealth(health: muster.health.v1.Health): Health {
  return enums.Health.nameOf(health) ?? "UNKNOWN";
}
