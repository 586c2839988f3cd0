/**
 * In the order of a life. MachinesReserved is False while the ledger lets the gang wait, with the ledger's own word as its reason, and goes with the end, as the machines do. PodNamesTaken is there while somebody else's
 * pods have names that members need, PodsWaiting while a pod finds no place or a container does not start, with the scheduler's or the kubelet's own word as its reason,
 * SpecUnreadable while nothing is done for a job that has begun because its spec cannot be read any more. At most one of Succeeded and
 * Failed is ever True, and nothing changes after it.
 */
export const CONDITION_TYPES = [
  "Created",
  "Suspended",
  "MachinesReserved",
  "PodNamesTaken",
  "PodsWaiting",
  "SpecUnreadable",
  "Running",
  "Restarting",
  "Succeeded",
  "Failed",
] as const;

export type ConditionType = (typeof CONDITION_TYPES)[number];

export type Condition = {
  readonly type: ConditionType;
  readonly status: "True" | "False";
  /** A stable word, of the form that Kubernetes asks for. */
  readonly reason: string;
  readonly message: string;
  readonly lastUpdateMs: number;
  readonly lastTransitionMs: number;
};

/** Why a member is made anew without counting against backoffLimit. */
export type UncountedReason = (typeof UNCOUNTED_REASONS)[number];
export const UNCOUNTED_REASONS = ["failure-policy", "failures-ignored", "disrupted", "machine-lost"] as const;

/** How often in a row one member was to be made anew without counting. */
export type Uncounted = {
  readonly index: number;
  /** The pod that was noted last, by its uid: it is not noted again. */
  readonly pod: string;
  readonly times: number;
  /** When that pod ended, or was seen to be lost: the pause is counted from then. */
  readonly atMs: number;
  readonly because: UncountedReason;
};

/** How far one replica type is. */
export type ReplicaStatus = {
  readonly type: string;
  readonly active: number;
  readonly ready: number;
  readonly succeeded: number;
  readonly failed: number;
  /** Failures that count against backoffLimit, of pods that are gone too. Never goes down. */
  readonly restarts: number;
  /** Indexes that have ended well, ascending; they are never run again, whatever becomes of their pods, and of the number of replicas meanwhile. */
  readonly completedIndexes: readonly number[];
  /** How many failures of each pod that is still there are in `restarts`; pods without any are left out. */
  readonly counted: readonly { readonly pod: string; readonly failures: number }[];
  /** By index, ascending; members that have not been made anew so since they ran calmly are left out. */
  readonly uncounted: readonly Uncounted[];
};

/** What is remembered of a job, and nowhere else. Times are whole seconds, as the API server keeps them. */
export type JobStatus = {
  readonly observedGeneration: number;
  /** At most one a type, in the order of their last transition. */
  readonly conditions: readonly Condition[];
  /** Since it has its machines, this time; the time in the queue is not counted. */
  readonly startMs: number | undefined;
  readonly completionMs: number | undefined;
  /** In the order of the spec; after them types that it has not any more and of which something is remembered. */
  readonly replicas: readonly ReplicaStatus[];
  /** Counts the times that the whole gang was made anew; pods carry it, so that the earlier ones are known. */
  readonly attempt: number;
  /** The attempts among them that count against backoffLimit. */
  readonly attemptsCounted: number;
  /** Members whose machine was lost and who get another one; `worker-3`. */
  readonly replaced: readonly string[];
  /** The gang waited too long for the machines it lost: it gives all back, and asks anew. */
  readonly regrouping: boolean;
};

/** Of a job that nobody has looked at. */
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

/** Whether something of this type has to be remembered, beside what can be seen. */
export function isRemembered({ restarts, completedIndexes, counted, uncounted }: ReplicaStatus): boolean {
  return restarts > 0 || completedIndexes.length > 0 || counted.length > 0 || uncounted.length > 0;
}
