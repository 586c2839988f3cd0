import type { GroupWish } from "./pod-group.ts";

/** A pod template as it was written; the API server has checked its form, and only the fields that rules look at are named here. */
export type PodTemplate = {
  readonly metadata?: {
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly spec: {
    readonly containers: readonly Container[];
    readonly initContainers?: readonly Container[];
    readonly restartPolicy?: string;
    readonly schedulerName?: string;
    readonly priorityClassName?: string;
    readonly nodeSelector?: Readonly<Record<string, string>>;
    readonly [field: string]: unknown;
  };
};

export type Container = {
  readonly name: string;
  readonly image?: string;
  readonly env?: readonly { readonly name: string; readonly value?: string; readonly valueFrom?: unknown }[];
  readonly ports?: readonly { readonly name?: string; readonly containerPort: number; readonly protocol?: string }[];
  readonly resources?: {
    readonly requests?: Readonly<Record<string, string | number>>;
    readonly limits?: Readonly<Record<string, string | number>>;
  };
  readonly [field: string]: unknown;
};

/** ExitCode: never by the kubelet; the controller makes the pod anew when its exit code is one to retry. */
export type RestartPolicy = "Always" | "OnFailure" | "Never" | "ExitCode";

/** Whether the kubelet runs again what failed, so that no exit code ends a pod. */
export function runsAgainInPlace(policy: RestartPolicy): boolean {
  return policy === "OnFailure" || policy === "Always";
}

/** One role of a gang: `replicas` pods from one template, each on a machine of its own. */
export type ReplicaSpec = {
  /** Lower case, unique in the job, and part of every name and label: `worker`. */
  readonly type: string;
  readonly replicas: number;
  readonly restartPolicy: RestartPolicy;
  readonly template: PodTemplate;
  /** Pool of the ledger that its machines come from. */
  readonly pool: string;
  /** Its pods are made only once each of these types is so far. */
  readonly dependsOn: readonly { readonly type: string; readonly status: "Ready" | "Complete" }[];
  /** Bounds within which `replicas` may be changed while the job runs; undefined: any change is taken, the gang is what `replicas` says. */
  readonly elastic: { readonly minReplicas: number; readonly maxReplicas: number } | undefined;
  /** Its failures never fail the job; its pods are made anew without counting. */
  readonly failuresIgnored: boolean;
  /** The container by which a pod's end is judged. */
  readonly mainContainer: string;
  /** The port under which the others find it; undefined: it gets no service. */
  readonly port: { readonly name: string; readonly number: number } | undefined;
};

export type CleanPodPolicy = "None" | "Running" | "All";

/** What to do about a pod that failed. RestartPod and RestartJob count against backoffLimit, Ignore does not. */
export type FailureAction = "FailJob" | "RestartPod" | "RestartJob" | "Ignore";

/** The first rule that matches decides; when none does, the replica type's restart policy does. */
export type FailureRule = {
  readonly action: FailureAction;
  /** Empty: every type. */
  readonly replicaTypes: readonly string[];
  readonly on:
    | { readonly exitCodes: "In" | "NotIn"; readonly values: readonly number[]; readonly container: string | undefined }
    | { readonly podCondition: string; readonly status: string };
};

/** Exit codes that differ from the rule that 128 and above are retried. */
export type ExitCodeRules = { readonly retryable: readonly number[]; readonly permanent: readonly number[] };

/** True when each of its conditions is; the job has succeeded as soon as one of its rules is true. */
export type SuccessRule = readonly { readonly type: string; readonly indexes: "all" | "any" | readonly number[] }[];

/** A gang job of any kind, with every default filled in. Kinds differ in how they come to this and in what their pods are told. */
export type JobSpec = {
  /** At least one; in the order in which they are looked at. */
  readonly replicas: readonly ReplicaSpec[];
  readonly suspend: boolean;
  /** Another controller that has the job; ours leaves it alone. Undefined: ours. */
  readonly managedBy: string | undefined;
  readonly backoffLimit: number | undefined;
  readonly activeDeadlineMs: number | undefined;
  readonly ttlAfterFinishedMs: number | undefined;
  readonly cleanPodPolicy: CleanPodPolicy;
  readonly failurePolicy: readonly FailureRule[];
  readonly exitCodes: ExitCodeRules;
  readonly success: readonly SuccessRule[];
  readonly priority: number;
  /** Pods that have to be there at once for the budget that guards the gang; undefined: all of them. */
  readonly minAvailable: number | undefined;
  /** The scheduler with groups of its own that places the gang's pods; undefined: they are placed one by one. */
  readonly group: GroupWish | undefined;
  /** What the kind has read for the description that it gives to pods; nobody else looks at it. */
  readonly settings?: Readonly<Record<string, string>>;
};

/** The type and index of one pod of a gang. */
export type Member = { readonly type: string; readonly index: number };
