import type { Crowded, NodeSelection, Requests } from "@muster/resources";
import type { JobSpec } from "./job.ts";
import type { ReadResult } from "./kind.ts";
import type { JobStatus } from "./job-status.ts";
import type { GroupsSeen } from "./pod-group.ts";
import type { QueueChoice } from "@muster/ledger-client/choose-queue";

/** How a container ended. `why`: the message of the kubelet or of the container, such as `OOMKilled`; absent when it adds nothing to the code. */
export type ContainerEnd = { readonly container: string; readonly code: number; readonly why?: string };

/** The trouble of a pod that does not start or run: the reason of its scheduler or kubelet, such as `Unschedulable`, and their message. */
export type PodTrouble = { readonly reason: string; readonly message: string };

/** The facts about one pod that rules need. */
export type PodFact = {
  readonly name: string;
  readonly uid: string;
  /** The member that it was created for, by its labels: `worker-3`. */
  readonly component: string;
  /** The attempt of the gang that it belongs to. */
  readonly attempt: number;
  readonly phase: "Pending" | "Running" | "Succeeded" | "Failed" | "Unknown";
  readonly ready: boolean;
  /** It is being deleted, or is gone: then only its end is left, which no status records yet. */
  readonly deleting: boolean;
  /** It was seen to end before its deletion was requested, and the status may not record that yet. */
  readonly endedFirst: boolean;
  /** Its preemption was announced to it: an end after that is not its own. */
  readonly preempted: boolean;
  readonly node: string | undefined;
  /** The machine that it was created for, while it has no node; undefined: it has one, or may be placed anywhere. */
  readonly pinned: string | undefined;
  /** Undefined when nothing is wrong, and for an ended pod. */
  readonly trouble: PodTrouble | undefined;
  readonly createdMs: number;
  /** When the latest of its containers started; undefined when none has, or when it is unknown. */
  readonly startedMs: number | undefined;
  /** When its last container ended; undefined while one runs, or when it is unknown. */
  readonly finishedMs: number | undefined;
  /** Restarts of its containers by the kubelet, all together. */
  readonly containerRestarts: number;
  /** The ends of containers that are down after a failure, in a pod that continues; `containerRestarts` includes them once they restart. */
  readonly down: readonly ContainerEnd[];
  /** The ends of containers that do not restart. */
  readonly exits: readonly ContainerEnd[];
  /** The last end of each container that has restarted since. */
  readonly earlierExits: readonly ContainerEnd[];
  readonly conditions: readonly { readonly type: string; readonly status: string }[];
  /** The pod's own reason for its end: `Evicted`, `NodeLost`; empty when it has none. */
  readonly reason: string;
  /** The message for this reason. */
  readonly message: string;
};

/** The pods of one replica type. */
export type ReplicaSeen = {
  readonly type: string;
  /** By index; one entry for each replica of the spec. */
  readonly slots: readonly (PodFact | undefined)[];
  /** Duplicates of an index, and indexes beyond the spec. */
  readonly surplus: readonly { readonly pod: PodFact; readonly because: "duplicate-index" | "index-out-of-range" }[];
  /** Every creation and deletion was observed: what is missing here is missing. */
  readonly podsSettled: boolean;
};

/** Why the ledger lets a request wait, or refuses it: a stable code, and a text with numbers for people. */
type WaitReason = { readonly code: string; readonly text: string };

/** Why and by when the machines of a unit are taken; in the words of the ledger. */
export type UnitPreemption = {
  /** Owner of the request that they are for. */
  readonly beneficiary: { readonly kind: string; readonly id: string };
  readonly queue: string;
  readonly reason: string;
  /** From then on, its pods end without grace. */
  readonly deadlineMs: number;
  /** The ledger knows that the job is ending its work, and no longer withdraws the preemption. */
  readonly accepted: boolean;
};

/**
 * One unit in the ledger; `unknown` while the ledger does not answer. `nodes` has the node of each component. `shares` has the part of each component that
 * has, or waits for, a part of a machine.
 */
export type UnitSeen =
  | { readonly id: string; readonly state: "none" | "unknown" }
  | {
      readonly id: string;
      readonly state: "waiting" | "refused";
      readonly components: readonly string[];
      readonly shares?: ReadonlyMap<string, Requests>;
      /** The nodes that each component accepts, if it does not accept all. */
      readonly selections?: ReadonlyMap<string, NodeSelection>;
      /** The further pools that each component accepts. */
      readonly otherPools?: ReadonlyMap<string, readonly string[]>;
      /** As in `Unit`. */
      readonly topology?: string;
      /** As in `Unit`. */
      readonly queue?: string;
      /**
       * The ledger drops requested shares, node selections, further pools, topologies and queues: it is of an earlier version, which reserves whole machines.
       */
      readonly dropsConstraints?: boolean;
      /** It was preempted, and keeps its needs with its place: it may have components that have completed. */
      readonly isRequeued?: boolean;
      readonly because: WaitReason;
      /** When this process first saw it wait, or be refused. */
      readonly sinceMs: number;
    }
  | {
      readonly id: string;
      readonly state: "granted";
      readonly nodes: ReadonlyMap<string, string>;
      /** The pool of each component; only where it had a choice. */
      readonly pools?: ReadonlyMap<string, string>;
      readonly shares?: ReadonlyMap<string, Requests>;
      /** The label of its topology and the value that its nodes have. */
      readonly domain?: { readonly key: string; readonly value: string };
      /** As in `Unit`. */
      readonly queue?: string;
      /** Absent: the job keeps the machines. */
      readonly preemption?: UnitPreemption;
    };

/** The minimum of a budget; `edited`: it protects other pods, or in another way. */
export type BudgetSeen = number | "edited";

/** A foreign pod with the name of a member, and its owner in words: `TFJob train`. */
export type TakenName = { readonly pod: string; readonly owner: string };

export type Unreadable = Extract<ReadResult, { readonly ok: false }>;

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
    /** Its cancellation was requested. */
    readonly cancelled: boolean;
  };
  /** Its problems instead, if it cannot be read. */
  readonly spec: JobSpec | Unreadable;
  readonly status: JobStatus;
  /** One for each replica type of the spec. */
  readonly replicas: readonly ReplicaSeen[];
  /** Every creation and deletion of the job's pods was observed, including pods of unknown types and without a readable index. */
  readonly podsSettled: boolean;
  /** Claimed pods of types that the spec does not have. */
  readonly unknownTypes: readonly PodFact[];
  /** Claimed pods without a readable index. They stay until the job is finished, and keep their name and machine. */
  readonly unreadable: readonly PodFact[];
  /** Pods that were the job's until their labels were edited. They are ignored, and so are the machines on which they run. */
  readonly released: readonly PodFact[];
  /** Names that missing members need and foreign pods have. */
  readonly namesTaken: readonly TakenName[];
  /** Names of the existing services, and of the desired ones. */
  readonly services: {
    readonly present: readonly string[];
    readonly wanted: readonly string[];
    readonly settled: boolean;
  };
  /** Missing companion objects of the kind, by kind and name. */
  readonly companionsMissing: readonly string[];
  /** The missing right to read or create companions, and its remedy; absent when nothing was refused. */
  readonly companionsRefused?: string | undefined;
  /** The job's own budget; undefined when it has none. */
  readonly budget: BudgetSeen | undefined;
  /** The groups of gang schedulers. */
  readonly groups: GroupsSeen;
  /** The units of this job in the ledger; one of state `none` where it has none. */
  readonly units: readonly UnitSeen[];
  /** Its queue, as the queues and its namespace are now; absent: none. What it holds keeps the queue of its reservation. */
  readonly queue?: QueueChoice;
  /** The gang is to be ready within this time of its grant, by the queue in which it has its machines. Absent: there is no such limit. */
  readonly readyTimeoutMs?: number | undefined;
  /** Nodes that are lost to the job, as `isLost` decides. A node that is only unschedulable has none of its pods. */
  readonly nodesLost: readonly string[];
  /** Nodes of members who wait for another machine on which pods can be started now. Absent: none. */
  readonly nodesBack?: readonly string[];
  /** Nodes that members share and that have been unschedulable for too long: they are lost to members without a pod there. */
  readonly nodesUnschedulable?: readonly string[];
  /** Nodes that answer, of pods that are preempted. Absent: no unit is preempted. */
  readonly nodesReady?: readonly string[];
  /** Members whose machine has no room for their next pod. */
  readonly crowded?: readonly Crowded[];
};

export type JobPolicy = {
  /** A failed pod is recreated after this, doubled for each earlier failure of its type up to the maximum. */
  readonly restartBackoffMs: number;
  readonly maxRestartBackoffMs: number;
  /** A job fails when one of its members ends more often than this in a row without counting against backoffLimit. */
  readonly maxUncountedRestarts: number;
  /** The count in a row of a member restarts after it has run for this time. */
  readonly calmAfterMs: number;
  /** A gang that waits longer than this for lost machines releases all of them. */
  readonly replacementWaitMs: number;
  /** A refused request is repeated after this, because pools may grow. */
  readonly refusedRetryMs: number;
  /** The message of a wait is written at most this often, unless its reason changes. */
  readonly explainEveryMs: number;
  /** The longest time between passes over a job for which something is due later. */
  readonly maxRecheckMs: number;
  /** A budget protects the gang, and its scheduler gets a group. */
  readonly gangScheduling: boolean;
};
