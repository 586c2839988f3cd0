import type { Rejection } from "@muster/health";
import type { CrowdedComponent, NodeSelection, Requests } from "@muster/resources";
import type { JobSpec } from "./job.ts";
import type { ReadResult } from "./kind.ts";
import type { JobStatus } from "./job-status.ts";
import type { GroupsSeen } from "./pod-group.ts";
import type { QueueChoice } from "@muster/ledger-client/choose-queue";

/** The end of a container. `why` is the message of the kubelet or the container, such as `OOMKilled`; absent if it adds nothing to the code. */
export type ContainerEnd = { readonly container: string; readonly code: number; readonly why?: string };

/** The trouble of a pod that does not start or run: the reason of its scheduler or kubelet, such as `Unschedulable`, and their message. */
export type PodTrouble = { readonly reason: string; readonly message: string };

/** The facts about one pod that rules need. */
export type PodFact = {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** The member for which the pod was created, by its labels: `worker-3`. */
  readonly component: string;
  /** The attempt of the gang that the pod belongs to. */
  readonly attempt: number;
  readonly phase: "Pending" | "Running" | "Succeeded" | "Failed" | "Unknown";
  readonly ready: boolean;
  /** True if the pod is being deleted or is gone. Of a gone pod only the unrecorded end remains. */
  readonly deleting: boolean;
  /** True if the end of the pod was observed before the request of its deletion, and the status may not record the end yet. */
  readonly endedFirst: boolean;
  /** True if the preemption was announced to the pod, so that a later end does not count as its own. */
  readonly preempted: boolean;
  readonly node: string | undefined;
  /** The machine for which the pod was created, while the pod has no node; undefined if the pod has a node, or may be placed anywhere. */
  readonly pinned: string | undefined;
  /** Undefined for a pod without trouble, and for an ended pod. */
  readonly trouble: PodTrouble | undefined;
  readonly createdMs: number;
  /** The start of the container that started last; undefined if none has started, or the time is unknown. */
  readonly startedMs: number | undefined;
  /** The end of the container that ended last; undefined while one runs, or if the time is unknown. */
  readonly finishedMs: number | undefined;
  /** The sum of the restarts by the kubelet of all containers of the pod. */
  readonly containerRestarts: number;
  /** The ends of containers that are down after a failure, in a pod that continues; `containerRestarts` includes them after the restart. */
  readonly down: readonly ContainerEnd[];
  /** The ends of containers that do not restart. */
  readonly exits: readonly ContainerEnd[];
  /** For each container that has restarted, its end before the last restart. */
  readonly earlierExits: readonly ContainerEnd[];
  readonly conditions: readonly { readonly type: string; readonly status: string }[];
  /** The pod's own reason for its end: `Evicted`, `NodeLost`; empty if it has none. */
  readonly reason: string;
  /** The message for this reason. */
  readonly message: string;
};

/** The pods of one replica type. */
export type ReplicaSeen = {
  readonly type: string;
  /** The pods by index, one entry for each replica of the spec. */
  readonly slots: readonly (PodFact | undefined)[];
  /** Duplicates of an index, and indexes outside the spec. */
  readonly surplus: readonly { readonly pod: PodFact; readonly because: "duplicate-index" | "index-out-of-range" }[];
  /** True if every creation and deletion was observed, so that missing pods do not exist. */
  readonly podsSettled: boolean;
};

/** Why a request waits in the ledger or is refused: a stable code, and a text with numbers for people. */
type WaitReason = { readonly code: string; readonly text: string };

/** Why the machines of a unit are preempted, and the deadline, as the ledger states them. */
export type UnitPreemption = {
  /** The owner of the request that gets the machines. */
  readonly beneficiary: { readonly kind: string; readonly id: string };
  readonly queue: string;
  readonly reason: string;
  /** The time after which the pods end without grace. */
  readonly deadlineMs: number;
  /** True if the ledger knows that the job is ending its work, and no longer withdraws the preemption. */
  readonly accepted: boolean;
};

/**
 * One unit in the ledger; `unknown` while the ledger does not answer. `nodes` maps each component to its node. `shares` maps each component with a part of a
 * machine to that part.
 */
export type UnitSeen =
  | { readonly id: string; readonly state: "none" | "unknown" }
  | {
      readonly id: string;
      readonly state: "waiting" | "refused";
      readonly components: readonly string[];
      readonly shares?: ReadonlyMap<string, Requests>;
      /** The nodes that each component accepts, unless it accepts all. */
      readonly selections?: ReadonlyMap<string, NodeSelection>;
      /** The further pools that each component accepts. */
      readonly otherPools?: ReadonlyMap<string, readonly string[]>;
      /** See `Unit`. */
      readonly topology?: string;
      /** See `Unit`. */
      readonly queue?: string;
      /**
       * True if the ledger drops requested shares, node selections, further pools, topologies and queues: a ledger of an earlier version reserves whole
       * machines.
       */
      readonly dropsConstraints?: boolean;
      /** True if the unit was preempted. It keeps its needs with its position, and the needs may include completed components. */
      readonly isRequeued?: boolean;
      readonly because: WaitReason;
      /** The time at which this process first observed the wait or the refusal. */
      readonly sinceMs: number;
    }
  | {
      readonly id: string;
      readonly state: "granted";
      readonly nodes: ReadonlyMap<string, string>;
      /** The pool of each component that had a choice. */
      readonly pools?: ReadonlyMap<string, string>;
      readonly shares?: ReadonlyMap<string, Requests>;
      /** The label of the unit's topology and the value on its nodes. */
      readonly domain?: { readonly key: string; readonly value: string };
      /** See `Unit`. */
      readonly queue?: string;
      /** Absent if the job keeps the machines. */
      readonly preemption?: UnitPreemption;
    };

/** The minimum of a budget; `edited` if the budget selects other pods, or has another kind of limit. */
export type BudgetSeen = number | "edited";

/** A foreign pod with the name of a member, and its owner as text: `TFJob train`. */
export type TakenName = { readonly pod: string; readonly owner: string };

export type UnreadableSpec = Extract<ReadResult, { readonly ok: false }>;

/** The observed state of a job for one pass; never mutated. */
export type Snapshot = {
  readonly nowMs: number;
  readonly job: {
    readonly namespace: string;
    readonly name: string;
    readonly uid: string;
    readonly generation: number;
    readonly createdMs: number;
    readonly deleting: boolean;
    /** Whether a client has requested the cancellation of the job. */
    readonly cancelled: boolean;
  };
  /** The problems of the spec if it is unreadable. */
  readonly spec: JobSpec | UnreadableSpec;
  readonly status: JobStatus;
  /** One for each replica type of the spec. */
  readonly replicas: readonly ReplicaSeen[];
  /** True if every creation and deletion of the job's pods was observed, including pods of unknown types and without a readable index. */
  readonly podsSettled: boolean;
  /** Claimed pods of types outside the spec. */
  readonly unknownTypes: readonly PodFact[];
  /** Claimed pods without a readable index. They stay until the job is finished, and keep their name and machine. */
  readonly unreadable: readonly PodFact[];
  /** Pods that belonged to the job until a client edited their labels. Passes ignore these pods, and the machines on which they run. */
  readonly released: readonly PodFact[];
  /** Names of missing members that foreign pods have. */
  readonly namesTaken: readonly TakenName[];
  /** Names of the existing services, and of the desired ones. */
  readonly services: {
    readonly present: readonly string[];
    readonly wanted: readonly string[];
    readonly settled: boolean;
  };
  /** Missing companion objects of the kind, by kind and name. */
  readonly companionsMissing: readonly string[];
  /** The missing right to read or create companions, and its remedy; absent if nothing was refused. */
  readonly companionsRefused?: string | undefined;
  /** The job's own budget; undefined if it has none. */
  readonly budget: BudgetSeen | undefined;
  /** The groups of gang schedulers. */
  readonly groups: GroupsSeen;
  /** The units of this job in the ledger; without a unit, a single one with state `none`. */
  readonly units: readonly UnitSeen[];
  /** The job's queue by the current queues and its namespace; absent if none. Its units keep the queue of their reservation. */
  readonly queue?: QueueChoice;
  /** The time after its grant within which the gang must be ready, by the queue of the grant. Absent without a limit. */
  readonly readyTimeoutMs?: number | undefined;
  /** Nodes that are lost to the job, as `isLost` decides. A lost node that is merely unschedulable has no pod of the job. */
  readonly nodesLost: readonly string[];
  /** Usable nodes of members that wait for a replacement. Absent if none. */
  readonly nodesBack?: readonly string[];
  /** Shared nodes that have been unschedulable for too long: they are lost to members without a pod on the node. */
  readonly nodesUnschedulable?: readonly string[];
  /** Responsive nodes with preempted pods. Absent if no unit is preempted. */
  readonly nodesReady?: readonly string[];
  /** Members whose machine has no room for their next pod. */
  readonly crowded?: readonly CrowdedComponent[];
  /** Recent rejections of members' pods by the kubelets of their machines. Absent if none. */
  readonly rejections?: readonly Rejection[];
};

export type JobPolicy = {
  /** A failed pod is recreated after this pause, doubled for each earlier failure of its type up to the maximum. */
  readonly restartBackoffMs: number;
  readonly maxRestartBackoffMs: number;
  /** A job fails if one of its members ends more often than this consecutively without counting against backoffLimit. */
  readonly maxUncountedRestarts: number;
  /** A member's count restarts at 0 after the member has run for this time. */
  readonly calmAfterMs: number;
  /** A gang that waits longer than this for replacements releases all machines. */
  readonly replacementWaitMs: number;
  /** Pause before a refused request is repeated, because pools may grow. */
  readonly refusedRetryMs: number;
  /** The message of a wait is written at most this often, unless its reason changes. */
  readonly explainEveryMs: number;
  /** The maximum interval between passes over a job with a later deadline. */
  readonly maxRecheckMs: number;
  /** True if a budget protects the gang, and its scheduler gets a group. */
  readonly gangScheduling: boolean;
};
