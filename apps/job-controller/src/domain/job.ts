import type { NodeSelection, Requests } from "@muster/resources";
import type { GroupRequest } from "./pod-group.ts";

/** A pod template as it was written. The API server has validated it; only the fields that the rules read are typed. */
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

/** ExitCode: the kubelet never restarts it; the controller recreates the pod when its exit code is retryable. */
export type RestartPolicy = "Always" | "OnFailure" | "Never" | "ExitCode";

/** Whether the kubelet restarts failed containers, so that no exit code ends a pod. */
export function restartsInPlace(policy: RestartPolicy): boolean {
  return policy === "OnFailure" || policy === "Always";
}

/** One role of a gang: `replicas` pods from one template, each on a machine of its own or on a part of a machine. */
export type ReplicaSpec = {
  /** Lower case, unique in the job, and part of every name and label: `worker`. */
  readonly type: string;
  readonly replicas: number;
  readonly restartPolicy: RestartPolicy;
  readonly template: PodTemplate;
  /** Pool of the ledger that its machines come from. */
  readonly pool: string;
  /** Acceptable, too, in order of preference; absent: none. All replica types that accept the same pools are granted in one of them. */
  readonly otherPools?: readonly string[];
  /** The requests of each member, which gets a part of a machine; absent: each member gets a whole machine. */
  readonly shared?: Requests | undefined;
  /** The nodes of the pool that its pods accept; absent: each node without taints. */
  readonly selection?: NodeSelection | undefined;
  /** Init containers that the kind adds to the template; absent: none. */
  readonly addedInitContainers?: readonly Container[];
  /** Its pods are created only once each of these types has this status. */
  readonly dependsOn: readonly { readonly type: string; readonly status: "Ready" | "Complete" }[];
  /** Bounds within which `replicas` may change while the job runs; undefined: any change is accepted, and the gang is all `replicas`. */
  readonly elastic: { readonly minReplicas: number; readonly maxReplicas: number } | undefined;
  /** Its failures never fail the job; its pods are recreated without counting. */
  readonly failuresIgnored: boolean;
  /** The container by which a pod's end is judged. */
  readonly mainContainer: string;
  /** The port under which other members find it; undefined: it gets no service. */
  readonly port: { readonly name: string; readonly number: number } | undefined;
};

export type CleanPodPolicy = "None" | "Running" | "All";

/** The action for a failed pod. RestartPod and RestartJob count against backoffLimit, Ignore does not. */
export type FailureAction = "FailJob" | "RestartPod" | "RestartJob" | "Ignore";

/** The first rule that matches decides; without one, the replica type's restart policy does. */
export type FailureRule = {
  readonly action: FailureAction;
  /** Empty: every type. */
  readonly replicaTypes: readonly string[];
  readonly on:
    | { readonly exitCodes: "In" | "NotIn"; readonly values: readonly number[]; readonly container: string | undefined }
    | { readonly podCondition: string; readonly status: string };
};

/** Exceptions from the rule that exit codes from 128 on are retried. */
export type ExitCodeRules = { readonly retryable: readonly number[]; readonly permanent: readonly number[] };

/** True when all of its conditions are; the job has succeeded as soon as one of its rules is true. */
export type SuccessRule = readonly { readonly type: string; readonly indexes: "all" | "any" | readonly number[] }[];

/** A gang job of any kind, with all defaults. Kinds differ in how they read it and in how they describe it to their pods. */
export type JobSpec = {
  /** At least one; in the order in which rules consider them. */
  readonly replicas: readonly ReplicaSpec[];
  /** All machines of the gang are nodes with the same value of this label; absent: they may be anywhere. */
  readonly topology?: string | undefined;
  readonly suspend: boolean;
  /** Another controller that runs the job; ours ignores it. Undefined: ours. */
  readonly managedBy: string | undefined;
  readonly backoffLimit: number | undefined;
  readonly activeDeadlineMs: number | undefined;
  readonly ttlAfterFinishedMs: number | undefined;
  readonly cleanPodPolicy: CleanPodPolicy;
  readonly failurePolicy: readonly FailureRule[];
  readonly exitCodes: ExitCodeRules;
  readonly success: readonly SuccessRule[];
  readonly priority: number;
  /** It is not to be preempted, if its queue permits that. */
  readonly notPreemptible?: boolean;
  /** Pods that the gang's budget protects; undefined: all of them. */
  readonly minAvailable: number | undefined;
  /** The gang scheduler that places the pods; undefined: they are placed one by one. */
  readonly group: GroupRequest | undefined;
  /** The settings that the kind has read for the description of its pods; only the kind reads them. */
  readonly settings?: Readonly<Record<string, string>>;
};

/** The type and index of one pod of a gang. */
export type Member = { readonly type: string; readonly index: number };
