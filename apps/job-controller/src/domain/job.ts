import type { NodeSelection, Requests } from "@muster/resources";
import type { GroupRequest } from "./pod-group.ts";

/** A pod template as written. The API server has validated it; only the fields that the rules read are typed. */
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
export function isRestartedInPlace(policy: RestartPolicy): boolean {
  return policy === "OnFailure" || policy === "Always";
}

/** One role of a gang: `replicas` pods from one template, each on a whole machine or a part of one. */
export type ReplicaSpec = {
  /** Lower case, unique in the job, and part of every name and label: `worker`. */
  readonly type: string;
  readonly replicas: number;
  readonly restartPolicy: RestartPolicy;
  readonly template: PodTemplate;
  /** The ledger's pool of the machines. */
  readonly pool: string;
  /** Further acceptable pools, in order of preference; absent if none. All replica types that accept the same pools are granted in one of them. */
  readonly otherPools?: readonly string[];
  /** The requests of each member that gets a part of a machine; absent if each member gets a whole machine. */
  readonly shared?: Requests | undefined;
  /** The nodes of the pool that the pods accept; absent for each node without taints. */
  readonly selection?: NodeSelection | undefined;
  /** Init containers that the kind adds to the template; absent if none. */
  readonly addedInitContainers?: readonly Container[];
  /** The pods are created only after each of these types has this status. */
  readonly dependsOn: readonly { readonly type: string; readonly status: "Ready" | "Complete" }[];
  /** The limits of `replicas` while the job runs. Undefined if any change is accepted, and the gang is all `replicas`. */
  readonly elastic: { readonly minReplicas: number; readonly maxReplicas: number } | undefined;
  /** True if failures of the type never fail the job, and its pods are recreated without counting. */
  readonly failuresIgnored: boolean;
  /** The container whose exit decides the end of a pod. */
  readonly mainContainer: string;
  /** The port at which other members find the member; undefined if it gets no service. */
  readonly port: { readonly name: string; readonly number: number } | undefined;
};

export type CleanPodPolicy = "None" | "Running" | "All";

/** The action for a failed pod. RestartPod and RestartJob count against backoffLimit, Ignore does not. */
export type FailureAction = "FailJob" | "RestartPod" | "RestartJob" | "Ignore";

/** The first matching rule decides; if none matches, the replica type's restart policy does. */
export type FailureRule = {
  readonly action: FailureAction;
  /** An empty list selects every type. */
  readonly replicaTypes: readonly string[];
  readonly on:
    | { readonly exitCodes: "In" | "NotIn"; readonly values: readonly number[]; readonly container: string | undefined }
    | { readonly podCondition: string; readonly status: string };
};

/** Exceptions from the rule that exit codes from 128 on are retried. */
export type ExitCodeRules = { readonly retryable: readonly number[]; readonly permanent: readonly number[] };

/** A rule holds if all of its conditions hold; the job succeeds if one rule holds. */
export type SuccessRule = readonly { readonly type: string; readonly indexes: "all" | "any" | readonly number[] }[];

/** A gang job of any kind, with all defaults. Kinds differ in how they read it and in how they describe it to their pods. */
export type JobSpec = {
  /** At least one type, in the order in which rules consider them. */
  readonly replicas: readonly ReplicaSpec[];
  /** The label whose value must be equal on the nodes of all machines of the gang; absent without a restriction. */
  readonly topology?: string | undefined;
  readonly suspend: boolean;
  /** The foreign controller that runs the job; undefined if our controller runs it. */
  readonly managedBy: string | undefined;
  readonly backoffLimit: number | undefined;
  readonly activeDeadlineMs: number | undefined;
  readonly ttlAfterFinishedMs: number | undefined;
  readonly cleanPodPolicy: CleanPodPolicy;
  readonly failurePolicy: readonly FailureRule[];
  readonly exitCodes: ExitCodeRules;
  readonly success: readonly SuccessRule[];
  readonly priority: number;
  /** Requests that the job is not preempted, which its queue may permit. */
  readonly notPreemptible?: boolean;
  /** The number of pods that the gang's budget protects; undefined for all. */
  readonly minAvailable: number | undefined;
  /** The request to the gang scheduler that places the pods; undefined if they are placed one by one. */
  readonly group: GroupRequest | undefined;
  /** The settings that the kind has read for the description of its pods; only the kind reads them. */
  readonly settings?: Readonly<Record<string, string>>;
};

/** The type and index of one pod of a gang. */
export type Member = { readonly type: string; readonly index: number };
