/**
 * The types, in the order in which a job gets them. MachinesReserved is False while the gang waits in the ledger, with the ledger's code as its reason; it is
 * removed at the end with the machines. PodNamesTaken exists while foreign pods have names that members need. PodsWaiting exists while a pod finds no node or a
 * container does not start, with the scheduler's or the kubelet's reason. SpecUnreadable exists while a started job is paused because its spec is unreadable.
 * Preempted is True from the preemption of its machines until it runs again. Requeued is True from a ready timeout of the gang until the gang is ready. At most
 * one of Succeeded and Failed is ever True, and nothing changes after it.
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
  /** A stable code, in CamelCase as Kubernetes requires. */
  readonly reason: string;
  readonly message: string;
  /** The announced restart, during the pause before it. */
  readonly restart?: RestartNumber;
  readonly lastUpdateMs: number;
  readonly lastTransitionMs: number;
};

/** A restart against backoffLimit, undefined without a limit. An uncounted restart has neither field. */
export type RestartNumber = { readonly number: number | undefined; readonly limit: number | undefined };

/** Why a member is recreated without counting against backoffLimit. */
export type UncountedReason = (typeof UNCOUNTED_REASONS)[number];
export const UNCOUNTED_REASONS = ["failure-policy", "failures-ignored", "disrupted", "machine-lost"] as const;

/** The number of consecutive times that a member was recreated without counting. */
export type UncountedRecreations = {
  readonly index: number;
  /** The uid of the last counted pod, which is not counted again. */
  readonly pod: string;
  readonly times: number;
  /** The time at which that pod ended or was found lost; the pause begins then. */
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
  /** Indexes that have succeeded, ascending. They never run again, even if their pods or the number of replicas change. */
  readonly completedIndexes: readonly number[];
  /** The number of failures of each existing pod that `restarts` includes; pods without failures are omitted. */
  readonly counted: readonly { readonly pod: string; readonly failures: number }[];
  /** Sorted by index. Omits members that have run for `calmAfterMs` since their last uncounted restart. */
  readonly uncounted: readonly UncountedRecreations[];
};

/** Members of one type that failed in one way. */
export type FailedMembers = {
  readonly type: string;
  /** Ascending. */
  readonly indexes: readonly number[];
  /** How they ended, for people: `exit code 3`; empty if the ends are too different to keep. */
  readonly message: string;
};

/** The persistent state of a job. Times are whole seconds, as the API server keeps them. */
export type JobStatus = {
  readonly observedGeneration: number;
  /** At most one of each type, in the order of their last transition. */
  readonly conditions: readonly Condition[];
  /** The time since which the job has its present machines; the time in the queue does not count. */
  readonly startMs: number | undefined;
  readonly completionMs: number | undefined;
  /** The types in the order of the spec, then types outside the spec that have a history. */
  readonly replicas: readonly ReplicaStatus[];
  /** Counts the restarts of the whole gang. Pods have it as a label, which identifies pods of earlier attempts. */
  readonly attempt: number;
  /** Counts the attempts that count against backoffLimit. */
  readonly attemptsCounted: number;
  /** Members that get a replacement for their lost machine: `worker-3`. */
  readonly replaced: readonly string[];
  /** True while the gang releases all machines and requests them again, because it waited too long for replacements. */
  readonly regrouping: boolean;
  /** Whether the whole gang has been ready at one time since `startMs`; recorded for jobs with a queue. */
  readonly hasBeenReady: boolean;
  /** The number of consecutive timeouts in which the gang was not ready within the `readyTimeout` of its queue. */
  readonly readyTimeouts: number;
  /** The time of the last of these timeouts, at which the pause before the next request begins. Undefined without a timeout. */
  readonly lastReadyTimeoutMs: number | undefined;
  /** The members whose pods had failed at the end of the job, because their pods may be deleted. Empty before the end. */
  readonly failedMembers: readonly FailedMembers[];
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
  failedMembers: [],
};

export function findCondition(status: JobStatus, type: ConditionType): Condition | undefined {
  return status.conditions.find((condition) => condition.type === type);
}

export function isTrue(status: JobStatus, type: ConditionType): boolean {
  return findCondition(status, type)?.status === "True";
}

export function removeCondition(status: JobStatus, absent: ConditionType): JobStatus {
  if (findCondition(status, absent) === undefined) return status;
  return { ...status, conditions: status.conditions.filter(({ type }) => type !== absent) };
}

export function isFinished(status: JobStatus): boolean {
  return isTrue(status, "Succeeded") || isTrue(status, "Failed");
}

/** Whether the history of this type cannot be observed again. */
export function isRemembered({ restarts, completedIndexes, counted, uncounted }: ReplicaStatus): boolean {
  return restarts > 0 || completedIndexes.length > 0 || counted.length > 0 || uncounted.length > 0;
}
