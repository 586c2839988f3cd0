import type { Taint } from "@muster/resources";
import { areRegrouped, NO_USES, areRecordsEqual, areUsesEqual, type NodeUses } from "./node-use.ts";
import {
  isObservedLater,
  type DesiredState,
  type PublishedState,
  type PublishRules,
  type InformerProgress,
  type PublishedFields,
} from "./plan-publish.ts";

/** The fields of a node that the watcher keeps. */
export type WatchedNode = {
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: number;
  readonly createdAtMs: number;
  readonly labels: Readonly<Record<string, string>>;
  readonly ready: boolean;
  readonly schedulable: boolean;
  readonly cordoned: boolean;
  /** True while the node has the startup taint. */
  readonly unopened: boolean;
  /** Taints with the effects NoSchedule and NoExecute. */
  readonly taints: readonly Required<Taint>[];
  /** Allocatable amounts of the node, by resource. Empty: the kubelet has not reported them. */
  readonly allocatable: Readonly<Record<string, number>>;
};

export type NodeState = PublishedFields &
  NodeUses & {
    readonly name: string;
    readonly labels: Readonly<Record<string, string>>;
    readonly ready: boolean;
    readonly schedulable: boolean;
    readonly cordoned: boolean;
    readonly unopened: boolean;
    readonly taints: readonly Required<Taint>[];
    readonly allocatable: Readonly<Record<string, number>>;
    /** Resource version of pods up to which the uses are known. */
    readonly occupantsVersion: number;
  };

/**
 * During a rollout of other system namespaces, replicas assign pods to different groups. If only overhead and foreign differ, a replica replaces the groups of
 * another replica only after this time. Otherwise the replicas would overwrite each other continuously. The groups of the last running replica stay. A change
 * of occupants or of shared uses is published immediately, with the groups of the publishing replica.
 */
const REGROUP_AFTER_MS = 30_000;

export function buildNodeState(
  node: WatchedNode,
  seen: { readonly uses: NodeUses; readonly occupantsVersion: number; readonly nowMs: number },
): NodeState {
  const { name, uid, resourceVersion, labels, ready, schedulable, cordoned, unopened, taints, allocatable } = node;
  const { uses, occupantsVersion, nowMs } = seen;
  return {
    name,
    uid,
    resourceVersion,
    labels,
    ready,
    schedulable,
    cordoned,
    unopened,
    taints,
    allocatable,
    ...uses,
    occupantsVersion,
    deleted: false,
    observedAtMs: nowMs,
  };
}

/**
 * Builds the rules of nodes. Nodes and pods come over two watches, and either may lag: the node and its uses are each taken from the later version.
 *
 * A watcher of a version without allocatable amounts and requests omits them; their absence is no reason for that watcher to write. The next pass of a newer
 * watcher restores them, even if the older watcher has observed more: earlier amounts are better than none. During a rolling update each write of the older
 * watcher therefore costs one more write. Until that write the record has no amounts, and readers keep the last ones.
 */
export function buildNodeRules(pods: InformerProgress): PublishRules<NodeState> {
  return {
    merge: ({ published, desired, newer }) => {
      if (newer && published.uid !== desired.uid) return desired;
      const node = newer ? desired : published;
      const { occupants, occupantsVersion, ...known } = areUsesNewer(published, desired, pods) ? desired : published;
      const omits = omitsAmounts(published, desired);
      const { allocatable } = omits ? desired : node;
      const { overhead, foreign, shared } = omits ? desired : known;
      const { taints } = omitsTaints(published, desired) ? desired : node;
      return { ...node, taints, allocatable, occupants, overhead, foreign, shared, occupantsVersion };
    },
    gone: (published) => ({ ...published, ready: false, schedulable: false, ...NO_USES, deleted: true }),
    same: (one, other) =>
      FIELDS.every((field) => one[field] === other[field]) &&
      areRecordsEqual(one.labels, other.labels) &&
      areRecordsEqual(one.allocatable, other.allocatable) &&
      sameTaints(one.taints, other.taints) &&
      areUsesEqual(one, other),
  };
}

const FIELDS = [
  "name",
  "uid",
  "ready",
  "schedulable",
  "cordoned",
  "unopened",
  "deleted",
] as const satisfies readonly (keyof NodeState)[];

/** Returns the time in ms since 1970 at which the first withheld groups may be replaced; Infinity: none are withheld. */
export function nextRegroupMs(
  desired: readonly DesiredState<NodeState>[],
  published: readonly PublishedState<NodeState>[],
  pods: InformerProgress,
): number {
  const states = new Map(published.map(({ key, state }) => [key, state]));
  let nextMs = Infinity;
  for (const { key, state } of desired) {
    const before = states.get(key);
    if (before !== undefined && isPublishedNewer(before, pods) && isWithheld(before, state)) {
      nextMs = Math.min(nextMs, regroupMs(before));
    }
  }
  return nextMs;
}

/** Returns whether the desired uses replace the published ones. */
function areUsesNewer(published: NodeState, desired: NodeState, pods: InformerProgress): boolean {
  return isPublishedNewer(published, pods) && !isWithheld(published, desired);
}

function isPublishedNewer(published: NodeState, pods: InformerProgress): boolean {
  return !published.deleted && isObservedLater(pods, published.occupantsVersion, published.observedAtMs);
}

function isWithheld(published: NodeState, desired: NodeState): boolean {
  return desired.observedAtMs < regroupMs(published) && areRegrouped(published, desired);
}

function regroupMs(published: NodeState): number {
  return published.observedAtMs + REGROUP_AFTER_MS;
}

/** Returns whether an older version published the same node without amounts that the desired state has. */
function omitsAmounts(published: NodeState, desired: NodeState): boolean {
  if (published.deleted || published.uid !== desired.uid) return false;
  if (!isEmpty(published.allocatable) || isEmpty(desired.allocatable)) return false;
  return areUsesEqual({ ...published, occupants: [] }, NO_USES);
}

/** Returns whether an older version published the node without taints that the desired state has: the published state is unschedulable and names no taint. */
function omitsTaints(published: NodeState, desired: NodeState): boolean {
  if (published.deleted || published.uid !== desired.uid) return false;
  return published.taints.length === 0 && !published.schedulable && !published.cordoned;
}

function sameTaints(one: NodeState["taints"], other: NodeState["taints"]): boolean {
  const keyOf = ({ key, value, effect }: Required<Taint>): string => `${key}=${value}:${effect}`;
  return one.map(keyOf).sort().join(",") === other.map(keyOf).sort().join(",");
}

function isEmpty(amounts: Readonly<Record<string, number>>): boolean {
  return Object.keys(amounts).length === 0;
}
