/**
 * In the order of a life. MachinesReserved is False while the gang waits in the ledger, with the ledger's code as its reason; it is removed at the end, as
 * the machines are. PodNamesTaken exists while foreign pods have names that members need. PodsWaiting exists while a pod finds no node or a container does
 * not start, with the scheduler's or the kubelet's reason. SpecUnreadable exists while a started job is paused because its spec cannot be read any more.
 * Preempted is True from the moment that its machines are taken until it runs again, and Requeued from the moment that its gang was not ready in time until it
 * is. At most one of Succeeded and Failed is ever True, and nothing changes after it.
 */
export const CONDITION_TYPES = [
  "Created",
  "Suspended",
  "MachinesReserved",
  "PodNamesTaken",
  "PodsWaiting",
  "SpecUnreadable",
  "Preempted",
  "Requeued",
  "Running",
  "Restarting",
  "Succeeded",
  "Failed",
] as const;

export type ConditionType = (typeof CONDITION_TYPES)[number];

export type Condition = {
  readonly type: ConditionType;
  readonly status: "True" | "False";
  /** A stable word, in CamelCase as Kubernetes requires. */
  readonly reason: string;
  readonly message: string;
  /** The announced restart, in the pause before it. */
  readonly restart?: RestartNumber;
  readonly lastUpdateMs: number;
  readonly lastTransitionMs: number;
};

/** A restart against backoffLimit, undefined where there is no limit. A restart that does not count has neither. */
export type RestartNumber = { readonly number: number | undefined; readonly limit: number | undefined };

/** Why a member is recreated without counting against backoffLimit. */
export type UncountedReason = (typeof UNCOUNTED_REASONS)[number];
export const UNCOUNTED_REASONS = ["failure-policy", "failures-ignored", "disrupted", "machine-lost"] as const;

/** How often in a row one member was recreated without counting. */
export type Uncounted = {
  readonly index: number;
  /** The uid of the last counted pod: it is not counted again. */
  readonly pod: string;
  readonly times: number;
  /** When that pod ended, or was seen to be lost: the pause begins then. */
  readonly atMs: number;
  readonly because: UncountedReason;
};

/** The progress of one replica type. */
export type ReplicaStatus = {
  readonly type: string;
  readonly active: number;
  readonly ready: number;
  readonly succeeded: number;
  readonly failed: number;
  /** Failures that count against backoffLimit, including those of deleted pods. Never decreases. */
  readonly restarts: number;
  /** Indexes that have succeeded, ascending; they never run again, whatever happens to their pods and to the number of replicas. */
  readonly completedIndexes: readonly number[];
  /** How many failures of each existing pod are in `restarts`; pods without any are left out. */
  readonly counted: readonly { readonly pod: string; readonly failures: number }[];
  /** By index, ascending; without members that have not been recreated so since they ran for `calmAfterMs`. */
  readonly uncounted: readonly Uncounted[];
};

/** Everything that is remembered of a job. Times are whole seconds, as the API server keeps them. */
export type JobStatus = {
  readonly observedGeneration: number;
  /** At most one of each type, in the order of their last transition. */
  readonly conditions: readonly Condition[];
  /** Since it has its present machines; the time in the queue is not counted. */
  readonly startMs: number | undefined;
  readonly completionMs: number | undefined;
  /** In the order of the spec, then types that are no longer in the spec and have a history. */
  readonly replicas: readonly ReplicaStatus[];
  /** Counts the restarts of the whole gang; pods carry it, so that pods of earlier attempts are recognised. */
  readonly attempt: number;
  /** The attempts that count against backoffLimit. */
  readonly attemptsCounted: number;
  /** Members whose machine was lost and that get another one: `worker-3`. */
  readonly replaced: readonly string[];
  /** The gang waited too long for the machines it lost: it releases all, and requests them again. */
  readonly regrouping: boolean;
  /** The whole gang has been ready at one time since `startMs`; recorded for jobs with a queue. */
  readonly hasBeenReady: boolean;
  /** How often in a row its gang was not ready within the `readyTimeout` of its queue. */
  readonly readyTimeouts: number;
  /** When that happened last: the pause before the next request begins then. Undefined: never in this row. */
  readonly lastReadyTimeoutMs: number | undefined;
};

/** The status of a new job. */
export const NEW_STATUS: JobStatus = {
  observedGeneration: 0,
  conditions: [],
  startMs: undefined,
  completionMs: undefined,
  replicas: [],
  attempt: 0,
  attemptsCounted: 0,
  replaced: [],
  regrouping: false,
  hasBeenReady: false,
  readyTimeouts: 0,
  lastReadyTimeoutMs: undefined,
};

export function conditionOf(status: JobStatus, type: ConditionType): Condition | undefined {
  return status.conditions.find((condition) => condition.type === type);
}

export function isTrue(status: JobStatus, type: ConditionType): boolean {
  return conditionOf(status, type)?.status === "True";
}

export function withoutCondition(status: JobStatus, absent: ConditionType): JobStatus {
  if (conditionOf(status, absent) === undefined) return status;
  return { ...status, conditions: status.conditions.filter(({ type }) => type !== absent) };
}

export function isFinished(status: JobStatus): boolean {
  return isTrue(status, "Succeeded") || isTrue(status, "Failed");
}

/** Whether this type has a history that cannot be observed. */
export function isRemembered({ restarts, completedIndexes, counted, uncounted }: ReplicaStatus): boolean {
  return restarts > 0 || completedIndexes.length > 0 || counted.length > 0 || uncounted.length > 0;
}
