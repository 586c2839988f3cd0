import type { JobSpec } from "./job.ts";
import type { ReadResult } from "./kind.ts";
import type { JobStatus } from "./job-status.ts";
import type { GroupsSeen } from "./pod-group.ts";

/** How a container ended. `why`: in the words of the kubelet or of the container, such as `OOMKilled`; absent when they say no more than the code. */
export type ContainerEnd = { readonly container: string; readonly code: number; readonly why?: string };

/** What keeps a pod from starting, or from going on: the stable word of its scheduler or kubelet, such as `Unschedulable` or `ImagePullBackOff`, and what they say to it. */
export type PodTrouble = { readonly reason: string; readonly message: string };

/** One pod of the gang, as far as rules look at it. */
export type PodFact = {
  readonly name: string;
  readonly uid: string;
  /** The member it was made for, as its labels say: `worker-3`. */
  readonly component: string;
  /** Which making of the whole gang it belongs to. */
  readonly attempt: number;
  readonly phase: "Pending" | "Running" | "Succeeded" | "Failed" | "Unknown";
  readonly ready: boolean;
  /** Going away, or gone already: then only its end is left, which no pass has written down. */
  readonly deleting: boolean;
  /** Its end was seen before anybody asked for its deletion, and is not known to be in the status. */
  readonly endedFirst: boolean;
  readonly node: string | undefined;
  /** The machine that it was made for, as long as it is on none; undefined: it has one, or may be put anywhere. */
  readonly pinned: string | undefined;
  /** Undefined when nothing is wrong, and of a pod that is over. */
  readonly trouble: PodTrouble | undefined;
  readonly createdMs: number;
  /** When the latest of its containers began to run; undefined when none has, or nothing says so. */
  readonly startedMs: number | undefined;
  /** When its last container ended; undefined while one runs, or when nothing says so. */
  readonly finishedMs: number | undefined;
  /** Restarts of its containers by the kubelet, all together. */
  readonly containerRestarts: number;
  /** Of containers that are down after an end that was not good, in a pod that goes on; `containerRestarts` has it in it once they are started again. */
  readonly down: readonly ContainerEnd[];
  /** Of containers that are not started again. */
  readonly exits: readonly ContainerEnd[];
  /** Of containers that were started again since, the last one of each. */
  readonly earlierExits: readonly ContainerEnd[];
  readonly conditions: readonly { readonly type: string; readonly status: string }[];
  /** The pod's own word for its end: `Evicted`, `NodeLost`; empty when it has none. */
  readonly reason: string;
  /** What is said to this word. */
  readonly message: string;
};

/** What is there of one replica type. */
export type ReplicaSeen = {
  readonly type: string;
  /** By index; one entry for each replica that the spec asks for. */
  readonly slots: readonly (PodFact | undefined)[];
  /** Twins of an index, and indexes that the spec does not ask for. */
  readonly surplus: readonly { readonly pod: PodFact; readonly because: "duplicate-index" | "index-out-of-range" }[];
  /** Every pod that was asked for or deleted has been seen: what is missing here is missing. */
  readonly podsSettled: boolean;
};

/** Why the ledger lets a request wait, or refuses it: a stable word, and the numbers behind it for people. */
export type WaitReason = { readonly code: string; readonly text: string };

/** What the ledger says of one unit of machines; `unknown` while it does not answer. `nodes` has the node of each component. */
export type UnitSeen =
  | { readonly id: string; readonly state: "none" | "unknown" }
  | {
      readonly id: string;
      readonly state: "waiting" | "refused";
      readonly components: readonly string[];
      readonly because: WaitReason;
      /** When this process first saw it wait, or be refused. */
      readonly sinceMs: number;
    }
  | { readonly id: string; readonly state: "granted"; readonly nodes: ReadonlyMap<string, string> };

/** The minimum of a budget, or that somebody made it guard other pods, or in another way. */
export type BudgetSeen = number | "edited";

/** A pod that is in the way, and whose it is, in words: `TFJob train`. */
export type TakenName = { readonly pod: string; readonly owner: string };

export type Unreadable = Extract<ReadResult, { readonly ok: false }>;

/** Everything that one pass over a job knows; never mutated. */
export type Snapshot = {
  readonly nowMs: number;
  readonly job: {
    readonly namespace: string;
    readonly name: string;
    readonly uid: string;
    readonly generation: number;
    readonly createdMs: number;
    readonly deleting: boolean;
    /** Somebody wants it to end. */
    readonly cancelled: boolean;
  };
  /** What is wrong with it instead, if it cannot be read. */
  readonly spec: JobSpec | Unreadable;
  readonly status: JobStatus;
  /** One a replica type of the spec. */
  readonly replicas: readonly ReplicaSeen[];
  /** Every pod of the job that was asked for or deleted has been seen, of types that the spec does not have, or that nobody can read, too. */
  readonly podsSettled: boolean;
  /** Claimed pods of types that the spec does not have. */
  readonly strangers: readonly PodFact[];
  /** Claimed pods whose index nobody can read. They stay, until the job is over, and keep the name and the machine that they have. */
  readonly unreadable: readonly PodFact[];
  /** Pods that were the job's until somebody took its labels from them. They are left alone, and so are the machines on which they run. */
  readonly released: readonly PodFact[];
  /** Names that missing members need and pods of others have. */
  readonly namesTaken: readonly TakenName[];
  /** Names of the services that are there, and of those that ought to be. */
  readonly services: {
    readonly present: readonly string[];
    readonly wanted: readonly string[];
    readonly settled: boolean;
  };
  /** Companion objects of the kind that are not there, by kind and name. */
  readonly companionsMissing: readonly string[];
  /** Nobody may look for them, or make them: which right is missing, and what gives it; absent when nothing was refused. */
  readonly companionsRefused?: string | undefined;
  /** The job's own budget; undefined when it has none. */
  readonly budget: BudgetSeen | undefined;
  /** The groups of schedulers that have such. */
  readonly groups: GroupsSeen;
  /** Units that the ledger has of this job; one of state `none` where it has none. */
  readonly units: readonly UnitSeen[];
  /** Nodes that are lost to the job, as `isLost` has it. One that is only closed has none of its pods. */
  readonly nodesLost: readonly string[];
};

export type JobPolicy = {
  /** A pod that failed is made anew after this, doubled for each earlier failure of its type up to the most. */
  readonly restartBackoffMs: number;
  readonly restartBackoffMostMs: number;
  /** A job fails when one of its members was to be made anew more often than this in a row, without that counting against its backoffLimit. */
  readonly uncountedRestartsMost: number;
  /** A member that has run for so long begins a new row. */
  readonly calmAfterMs: number;
  /** A gang that waits longer than this for machines that it lost gives back all of them. */
  readonly replacementWaitMs: number;
  /** A request that the ledger refused is made again after this, because pools may grow. */
  readonly refusedRetryMs: number;
  /** The numbers of a wait are written again at most this often, unless its reason changes. */
  readonly explainEveryMs: number;
  /** The longest time that a job is left alone when something is due later. */
  readonly lookAgainMostMs: number;
  /** A budget guards the gang, and its scheduler is told of it. */
  readonly gangScheduling: boolean;
};
