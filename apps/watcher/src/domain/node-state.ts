import { areRegrouped, NO_USES, sameRecord, sameUses, type NodeUses } from "./node-use.ts";
import { isNewerSight, type PublishRules, type Sight, type Stated } from "./plan-publish.ts";

/** What the watcher keeps of a node. */
export type WatchedNode = {
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: number;
  readonly createdAtMs: number;
  readonly labels: Readonly<Record<string, string>>;
  readonly ready: boolean;
  readonly schedulable: boolean;
  readonly cordoned: boolean;
  /** It still has the startup taint. */
  readonly unopened: boolean;
  /** What it can allocate, by resource. Empty: the kubelet has not reported it. */
  readonly allocatable: Readonly<Record<string, number>>;
};

/** The published state of a node. */
export type NodeState = Stated &
  NodeUses & {
    readonly name: string;
    readonly labels: Readonly<Record<string, string>>;
    readonly ready: boolean;
    readonly schedulable: boolean;
    readonly cordoned: boolean;
    readonly unopened: boolean;
    readonly allocatable: Readonly<Record<string, number>>;
    /** Resource version of pods up to which the uses are known. */
    readonly occupantsVersion: number;
  };

/**
 * Replicas with other system namespaces, as while a new setting is rolled out, put the same pods into other groups. Each replaces the groups of the other only
 * after this time, and the last one that runs replaces them for good. Otherwise they would overwrite each other without pause.
 */
const REGROUP_AFTER_MS = 30_000;

export function buildNodeState(
  node: WatchedNode,
  seen: { readonly uses: NodeUses; readonly occupantsVersion: number; readonly nowMs: number },
): NodeState {
  const { name, uid, resourceVersion, labels, ready, schedulable, cordoned, unopened, allocatable } = node;
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
    allocatable,
    ...uses,
    occupantsVersion,
    deleted: false,
    observedAtMs: nowMs,
  };
}

/**
 * Nodes and pods come over two watches, and either may be behind: the node and its uses are each taken from the side with the later version.
 *
 * A watcher of a version without allocatable amounts and requests omits them from what it writes, and they are no reason for it to write. So during a rolling
 * update each of its writes costs one more write, which adds them, and readers see no amounts in between.
 */
export function nodeRules(pods: Sight): PublishRules<NodeState> {
  return {
    merge: ({ published, desired, newer }) => {
      if (newer && published.uid !== desired.uid) return desired;
      const node = newer ? desired : published;
      const { occupants, overhead, foreign, shared, occupantsVersion } = knowsUses(published, desired, pods)
        ? desired
        : published;
      return { ...node, occupants, overhead, foreign, shared, occupantsVersion };
    },
    gone: (published) => ({ ...published, ready: false, schedulable: false, ...NO_USES, deleted: true }),
    same: (one, other) =>
      FIELDS.every((field) => one[field] === other[field]) &&
      sameRecord(one.labels, other.labels) &&
      sameRecord(one.allocatable, other.allocatable) &&
      sameUses(one, other),
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

/** True when the desired uses replace the published ones. */
function knowsUses(published: NodeState, desired: NodeState, pods: Sight): boolean {
  if (published.deleted || !isNewerSight(pods, published.occupantsVersion, published.observedAtMs)) return false;
  return desired.observedAtMs >= published.observedAtMs + REGROUP_AFTER_MS || !areRegrouped(published, desired);
}
