import {
  NEW_SET,
  buildPodName,
  type ReplicaPlacement,
  type ReplicaSet,
  type ReplicaSetSpec,
  type PodTransfer,
} from "../src/domain/replica-set.ts";
import type { Rollout } from "../src/domain/rollout.ts";
import type { SetPod, SetPolicy, SetSnapshot } from "../src/domain/set-snapshot.ts";

/** Sets, pods and snapshots for tests: well in every respect that is not given. */
export const POLICY: SetPolicy = {
  nodeGraceMs: 60_000,
  machinesGoneMs: 60_000,
  transferMs: 300_000,
  transferRetry: { firstMs: 10_000, maxMs: 600_000 },
};

export function makeSpec(spec: Partial<ReplicaSetSpec> = {}): ReplicaSetSpec {
  return {
    podId: "web",
    template: "{}",
    nodeSelector: "disk=ssd",
    pool: undefined,
    replicasDesired: 0,
    allocationStrategy: "dynamic",
    daemon: false,
    labels: {},
    minReadySeconds: 0,
    ...spec,
  };
}

export function makeSet(set: Partial<ReplicaSet> = {}): ReplicaSet {
  return {
    ...NEW_SET,
    name: "web",
    uid: "u1",
    spec: makeSpec(),
    fence: 1,
    outbox: [],
    createdAtMs: 0,
    requestId: "r1",
    traceparent: "",
    ...set,
  };
}

/** A set with a place on each of these nodes, in this order. */
export function makePlacedSet(nodes: readonly string[], set: Partial<ReplicaSet> = {}): ReplicaSet {
  return makeSet({
    placements: nodes.map((node, index) => makePlacement(node, index + 1)),
    nextOrdinal: nodes.length + 1,
    spec: makeSpec({ replicasDesired: nodes.length }),
    ...set,
  });
}

export function makePlacement(node: string, ordinal: number, templateHash = "h1"): ReplicaPlacement {
  return { node, ordinal, templateHash, sinceMs: 0, reservation: undefined };
}

/** A transfer that a user asked for and that does not expire. */
export function makeTransfer(oldNode: string, newNode: string | undefined): PodTransfer {
  const deadlineMs = Number.MAX_SAFE_INTEGER;
  return { id: "t", oldNode, newNode, deadlineMs, startedAtMs: 0, because: { code: "REQUESTED" } };
}

export function makePod(
  set: ReplicaSet,
  { node, ordinal }: ReplicaPlacement,
  pod: Partial<SetPod> = {},
): [string, SetPod] {
  const name = buildPodName(set.name, ordinal);
  return [name, { name, uid: `uid-${name}`, node, health: "READY", sinceMs: 0, deleting: false, ...pod }];
}

/** All pods are there and ready. */
export function makeSnapshot(
  set: ReplicaSet,
  eligible: readonly string[],
  rest: Partial<SetSnapshot> = {},
): SetSnapshot {
  return {
    nowMs: 1_000_000,
    set,
    rollout: undefined,
    nodes: { eligible: new Set(eligible), usable: new Set(eligible), unusable: new Map(), foreign: new Map() },
    taken: new Set(),
    unhealthy: [],
    contest: { nodes: new Map(), yields: new Set() },
    ledger: { known: true, byNumber: new Map(), trouble: undefined },
    pods: new Map(set.placements.map((placement) => makePod(set, placement))),
    templateHash: "h1",
    failsafe: false,
    ...rest,
  };
}

/** From `web` to `web-2`, of three replicas. */
export function makeRollout(roll: Partial<Rollout> = {}): Rollout {
  return {
    id: "web-2",
    oldSet: "web",
    newSet: "web-2",
    target: 3,
    undoTarget: 3,
    newBefore: 0,
    minimum: 2,
    leaveOld: false,
    delayMs: 0,
    oldDesired: 3,
    newDesired: 1,
    phase: "RUNNING",
    lastStepAtMs: 0,
    createdAtMs: 0,
    fence: 1,
    undone: 0,
    trouble: undefined,
    outbox: [],
    requestId: "r",
    traceparent: "",
    by: "",
    ...roll,
  };
}
