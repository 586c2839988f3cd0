import type { Fault } from "@muster/faults";
import type { ForcePolicy, LostReason, NodeSeen, Rejection } from "@muster/health";
import type { CrowdedComponent } from "@muster/resources";
import type { SessionRecord } from "./session.ts";
import type { PodSeen } from "./summarise-components.ts";

/** The ledger's codes for a wait. OTHER: a code that this version does not know. */
export const WAIT_CODES = [
  "POOL_AVAILABILITY",
  "POOL_TOO_SMALL",
  "FRAGMENTED",
  "WAITING_FOR_TOPOLOGY",
  "HELD_FOR_OLDER",
  "BEHIND_HIGHER_PRIORITY",
  "BEHIND_FAIR_SHARE",
  "CONCURRENCY_LIMIT",
  "POOLS_NOT_KNOWN_YET",
  "WAITING_FOR_QUOTA",
  "KEPT_FOR_OWNER",
  "BEHIND_STRICT_HEAD",
  "WAITING_FOR_PREEMPTED",
  "QUEUE_UNKNOWN",
  "QUEUE_HELD",
  "QUOTA_EXCEEDED",
  "OTHER",
] as const;

/** Why the ledger queues a request: a stable code and its numbers. */
export type WaitReason = {
  readonly code: (typeof WAIT_CODES)[number];
  readonly pool: string;
  readonly requested: number;
  readonly available: number;
  /** The number of `requested` that are parts of machines; absent: none. */
  readonly parts?: number;
  /** Describes the nodes of the pool that can be granted; absent: each node without taints. */
  readonly nodes?: string | undefined;
  /** The label for which all machines need an equal value; set with WAITING_FOR_TOPOLOGY. */
  readonly topology?: string | undefined;
  readonly ahead: number;
  /** Set with the codes that concern queues. */
  readonly queue?: string | undefined;
  /** Explanation for a session without a usable queue. */
  readonly text?: string;
  /** The insufficient part of the quota. */
  readonly quota?: { readonly pool: string; readonly resource: string; readonly requested: number } | undefined;
};

/** Answers of the ledger that a retry cannot change. */
export type LedgerRefusal = Extract<
  Fault,
  { readonly code: "pool_unknown" | "pool_capacity" | "reservation_differs" | "invalid_request" | "limit_exceeded" }
>;

/** The last answer of the ledger. `unknown`: the ledger was not queried, or a hint reports that its answer has changed. */
export type ReservationSeen =
  | { readonly state: "unknown" }
  /** The session has no reservation: its queue does not exist, or never has enough. Each pass requests machines again. */
  | { readonly state: "unqueued"; /** Why, for people. */ readonly text: string }
  | {
      readonly state: "waiting";
      readonly id: string;
      readonly because: WaitReason | undefined;
      readonly lowered?: LoweredPriority;
    }
  | {
      readonly state: "granted";
      readonly id: string;
      readonly machines: readonly GrantedMachine[];
      readonly lowered?: LoweredPriority;
    }
  | {
      readonly state: "refused";
      readonly fault: LedgerRefusal;
      /** An explanation; absent: the fault is clear without one. */ readonly text?: string;
    };

/** The queue has lowered the priority of the session to its `maxPriority`. */
export type LoweredPriority = { readonly queue: string; readonly maxPriority: number };

/** The ledger's last answer about a replacement machine, as `ReservationSeen`. `released`: the session released it. */
export type ReplacementSeen = ReservationSeen | { readonly state: "released" };

export type GrantedMachine = { readonly component: string; readonly pool: string; readonly node: string };

/** A pod of the session as the API server lists it. */
export type LivePod = {
  readonly pod: string;
  readonly uid: string;
  readonly deleting: boolean;
  /** State of the pod by the watcher's rules. */
  readonly seen: PodSeen;
  /** The node of the pod, once the pod should have ended by itself; undefined before that, and if the node could not be read. */
  readonly overdueOn: NodeSeen | undefined;
  /** True if every container has ended permanently, so that no process of the pod runs on its machine. */
  readonly ended: boolean;
  /** The started containers. */
  readonly containers: readonly string[];
  /** Termination message of the main container; empty while it runs. */
  readonly leftText: string;
};

/** An obstacle to the creation of a pod. */
export type PodObstacle =
  /** The API server permanently refuses this pod. */
  | {
      readonly kind: "refused";
      readonly component: string;
      readonly reason: "POD_REFUSED" | "POD_NAME_TAKEN";
      readonly message: string;
    }
  /** A pod of an earlier session of the same name still exists. */
  | { readonly kind: "leftover"; readonly component: string; readonly pod: string; readonly uid: string };

/** The observed state of one pass; never mutated. */
export type Snapshot = {
  readonly nowMs: number;
  /** Time since this executor took the session over. */
  readonly heldMs: number;
  readonly record: SessionRecord;
  readonly reservation: ReservationSeen;
  readonly pods: readonly PodSeen[];
  /** The pods as the API server lists them after the record was written, if `needsListing` requires a list; undefined: not listed. */
  readonly livePods: readonly LivePod[] | undefined;
  /** During a clean-up: an event reports its next progress (`isProgressReported`). */
  readonly isProgressReported: boolean;
  /** True while this executor reads logs, or has not recorded their end yet. */
  readonly isReading: boolean;
  readonly obstacles: readonly PodObstacle[];
  /** The session's lost nodes, each with its reason; empty while unknown. */
  readonly nodesLost: ReadonlyMap<string, LostReason>;
  /** Shared nodes on which no pod can start: they are lost for components without a pod on them. */
  readonly nodesUnschedulable?: ReadonlyMap<string, LostReason>;
  /** Shared components whose machine has no room for their pod because of foreign pods. */
  readonly crowded?: readonly CrowdedComponent[];
  /** Recent rejections of pods by the kubelets of their machines. */
  readonly rejections?: readonly Rejection[];
  /** Granted nodes that components have lost and that are usable again. */
  readonly nodesBack: ReadonlySet<string>;
  /** The ledger's last answer about the replacement machine, by component; absent: `unknown`. */
  readonly replacements: ReadonlyMap<string, ReplacementSeen>;
  /** The infrastructure failure of the previous pass; undefined: none. */
  readonly trouble: string | undefined;
};

export type SessionPolicy = ForcePolicy & {
  /** Limit of the clean-up after the verdict, in addition to the pods' own grace period. A longer clean-up is reported as a warning and left to the sweep. */
  readonly cleanupLimitMs: number;
  /** Interval of checks of terminating pods whose end no event reports. */
  readonly lookAgainMs: number;
  /** Maximum wait for a replacement of a machine that is lost before its component has started. */
  readonly replacementWaitMs: number;
};
