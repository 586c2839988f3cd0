import type { JobSpec, ReplicaSpec } from "../src/domain/job.ts";
import { NEW_STATUS } from "../src/domain/job-status.ts";
import { buildOwnerId } from "../src/domain/build-units.ts";
import type { JobPolicy, PodFact, ReplicaSeen, Snapshot, UnitSeen } from "../src/domain/snapshot.ts";

/** A job, its pods and machines with the defaults of tests: healthy, without special settings. */
export const NOW_MS = 1_000_000_000;
export const JOB = {
  namespace: "default",
  name: "train",
  uid: "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9",
  generation: 1,
  createdMs: NOW_MS - 60_000,
  deleting: false,
  cancelled: false,
};

export const POLICY: JobPolicy = {
  restartBackoffMs: 10_000,
  maxRestartBackoffMs: 360_000,
  maxUncountedRestarts: 20,
  calmAfterMs: 600_000,
  replacementWaitMs: 600_000,
  refusedRetryMs: 30_000,
  explainEveryMs: 30_000,
  maxRecheckMs: 3_600_000,
  gangScheduling: true,
};

export function makeReplica(type: string, replicas: number, more: Partial<ReplicaSpec> = {}): ReplicaSpec {
  return {
    type,
    replicas,
    restartPolicy: "OnFailure",
    template: { spec: { containers: [{ name: "main", image: "image" }] } },
    pool: "pool-a",
    dependsOn: [],
    elastic: undefined,
    failuresIgnored: false,
    mainContainer: "main",
    port: undefined,
    ...more,
  };
}

export function makeSpec(more: Partial<JobSpec> = {}): JobSpec {
  return {
    replicas: [makeReplica("worker", 2)],
    suspend: false,
    managedBy: undefined,
    backoffLimit: undefined,
    activeDeadlineMs: undefined,
    ttlAfterFinishedMs: undefined,
    cleanPodPolicy: "Running",
    failurePolicy: [],
    exitCodes: { retryable: [], permanent: [] },
    success: [[{ type: "worker", indexes: "all" }]],
    priority: 0,
    minAvailable: undefined,
    group: undefined,
    ...more,
  };
}

export function makePodFact(component: string, more: Partial<PodFact> = {}): PodFact {
  return {
    namespace: "default",
    name: `train-${component}`,
    uid: `uid-${component}`,
    component,
    attempt: 0,
    phase: "Running",
    ready: true,
    deleting: false,
    endedFirst: false,
    preempted: false,
    node: `node-${component}`,
    pinned: undefined,
    trouble: undefined,
    createdMs: NOW_MS - 50_000,
    startedMs: undefined,
    finishedMs: undefined,
    containerRestarts: 0,
    down: [],
    exits: [],
    earlierExits: [],
    conditions: [],
    reason: "",
    message: "",
    ...more,
  };
}

/** Builds a pod whose main container has just ended with this code. */
export function makeEndedPod(component: string, code: number, more: Partial<PodFact> = {}): PodFact {
  return makePodFact(component, {
    phase: code === 0 ? "Succeeded" : "Failed",
    ready: false,
    finishedMs: NOW_MS,
    exits: [{ container: "main", code }],
    ...more,
  });
}

export function makeReplicaSeen(
  type: string,
  slots: ReplicaSeen["slots"],
  more: Partial<ReplicaSeen> = {},
): ReplicaSeen {
  return { type, slots, surplus: [], podsSettled: true, ...more };
}

/** Builds the gang's grant: one node per component, named after it. */
export function makeGrantedUnit(...components: readonly string[]): UnitSeen {
  const nodes = new Map(components.map((component) => [component, `node-${component}`]));
  return { id: buildOwnerId(JOB), state: "granted", nodes };
}

export function makeSnapshot(more: Partial<Snapshot> = {}): Snapshot {
  return {
    nowMs: NOW_MS,
    job: JOB,
    spec: makeSpec(),
    status: NEW_STATUS,
    replicas: [makeReplicaSeen("worker", [undefined, undefined])],
    podsSettled: more.replicas?.every(({ podsSettled }) => podsSettled) ?? true,
    unknownTypes: [],
    unreadable: [],
    released: [],
    services: { present: [], wanted: [], settled: true },
    namesTaken: [],
    companionsMissing: [],
    budget: undefined,
    groups: { kind: undefined, existing: [] },
    units: [makeGrantedUnit("worker-0", "worker-1")],
    nodesLost: [],
    ...more,
  };
}
