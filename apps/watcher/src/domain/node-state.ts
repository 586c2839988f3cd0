import { isNewerSight, type PublishRules, type Sight, type Stated } from "./plan-publish.ts";
import type { Owner, WatchedPod } from "./pod-state.ts";

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
};

/** The published state of a node. */
export type NodeState = Stated & {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly ready: boolean;
  readonly schedulable: boolean;
  readonly cordoned: boolean;
  readonly unopened: boolean;
  /** Owners of the unfinished exclusive pods on the node, sorted, each once. */
  readonly occupants: readonly Owner[];
  /** Resource version of pods up to which the occupants are known. */
  readonly occupantsVersion: number;
};

/** The owners with exclusive pods, by node. */
export function buildOccupants(pods: readonly WatchedPod[]): ReadonlyMap<string, readonly Owner[]> {
  const byNode = new Map<string, Map<string, Owner>>();
  for (const pod of pods) {
    if (!isOccupant(pod)) continue;
    const { node, owner } = pod;
    const owners = byNode.get(node) ?? new Map<string, Owner>();
    byNode.set(node, owners.set(`${owner.kind}.${owner.id}`, owner));
  }
  const sorted = (owners: ReadonlyMap<string, Owner>): readonly Owner[] =>
    [...owners].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, owner]) => owner);
  return new Map([...byNode].map(([node, owners]) => [node, sorted(owners)]));
}

/** Nodes that have other occupants after a pod came, went or changed. */
export function occupancyChanges(before: WatchedPod | undefined, after: WatchedPod | undefined): readonly string[] {
  const [was, is] = [before, after].map((pod) => (pod !== undefined && isOccupant(pod) ? pod : undefined));
  const same = was?.node === is?.node && was?.owner.kind === is?.owner.kind && was?.owner.id === is?.owner.id;
  return same ? [] : [was, is].flatMap((pod) => pod?.node ?? []);
}

function isOccupant({ exclusive, finished, node }: WatchedPod): boolean {
  return exclusive && !finished && node !== "";
}

export function buildNodeState(
  node: WatchedNode,
  seen: { readonly occupants: readonly Owner[]; readonly occupantsVersion: number; readonly nowMs: number },
): NodeState {
  const { name, uid, resourceVersion, labels, ready, schedulable, cordoned, unopened } = node;
  const { occupants, occupantsVersion, nowMs } = seen;
  return {
    name,
    uid,
    resourceVersion,
    labels,
    ready,
    schedulable,
    cordoned,
    unopened,
    occupants,
    occupantsVersion,
    deleted: false,
    observedAtMs: nowMs,
  };
}

/** Nodes and pods come over two watches, and either may be behind: the node and its occupants are each taken from the side with the later version. */
export function nodeRules(pods: Sight): PublishRules<NodeState> {
  return {
    merge: ({ published, desired, newer }) => {
      if (newer && published.uid !== desired.uid) return desired;
      const node = newer ? desired : published;
      const knower = isNewerSight(pods, published.occupantsVersion, published.observedAtMs) ? desired : published;
      const { occupants, occupantsVersion } = published.deleted ? published : knower;
      return { ...node, occupants, occupantsVersion };
    },
    gone: (published) => ({ ...published, ready: false, schedulable: false, occupants: [], deleted: true }),
    same: (one, other) => comparable(one) === comparable(other),
  };
}

/** Everything but versions and times, in one order. */
function comparable(state: NodeState): string {
  const { name, uid, labels, ready, schedulable, cordoned, unopened, occupants, deleted } = state;
  const sortedLabels = Object.entries(labels).sort(([one], [other]) => (one < other ? -1 : 1));
  const owners = occupants.map(({ kind, id }) => [kind, id]);
  return JSON.stringify([name, uid, ready, schedulable, cordoned, unopened, deleted, sortedLabels, owners]);
}
