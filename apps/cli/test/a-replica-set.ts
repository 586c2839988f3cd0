import type { Replica, ReplicaSet, RolloutRecord } from "../src/adapters/farm-messages.ts";

/** Builds sets and rolls for tests, healthy unless a test states otherwise. */
export function makeReplica(node: string, rest: Partial<Replica> = {}): Replica {
  return { node, pod: `web-of-${node}`, health: "READY", reason: "", message: "", eligible: true, ...rest };
}

export function makeReplicaSet(rest: Partial<ReplicaSet> = {}): ReplicaSet {
  return {
    name: "web",
    uid: "u",
    revision: 1,
    generation: 1,
    spec: {
      podId: "web",
      replicas: 2,
      daemon: false,
      nodeSelector: "disk=ssd",
      pool: "",
      allocationStrategy: "Dynamic",
      minReadySeconds: 5,
      template: {},
      labels: {},
    },
    desired: 2,
    healthy: 2,
    eligibleNodes: 3,
    replicas: [makeReplica("n-1"), makeReplica("n-2")],
    farm: "farm-1",
    disabled: false,
    transfer: undefined,
    held: undefined,
    transferFailures: 0,
    transferNotBeforeAtMs: 0,
    roll: "",
    deletion: undefined,
    trouble: undefined,
    createdAtMs: 0,
    ...rest,
  };
}

export function makeRollout(rest: Partial<RolloutRecord> = {}): RolloutRecord {
  return {
    id: "web-2",
    revision: 1,
    oldSet: "web",
    newSet: "web-2",
    phase: "RUNNING",
    target: 2,
    minimum: 1,
    leaveOld: false,
    delayMs: 0,
    oldDesired: 1,
    newDesired: 1,
    oldCurrent: 1,
    newCurrent: 1,
    oldHealthy: 1,
    newHealthy: 0,
    undone: 0,
    waitingBecause: "",
    trouble: undefined,
    createdAtMs: 0,
    ...rest,
  };
}
