import type { Fault } from "@muster/faults";
import type { ForcePolicy, LostReason, NodeSeen } from "@muster/health";
import type { Crowded } from "@muster/resources";
import type { SessionRecord } from "./session.ts";
import type { PodSeen } from "./summarise-components.ts";

/** The ledger's words for a wait. OTHER: one that this version does not know. */
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

/** Why the ledger lets a request wait: a stable word and its numbers. */
export type WaitReason = {
  readonly code: (typeof WAIT_CODES)[number];
  readonly pool: string;
  readonly requested: number;
  readonly available: number;
  /** How many of `requested` are parts of machines; absent: none. */
  readonly parts?: number;
  /** The nodes of the pool that count, for people; absent: each node without taints. */
  readonly nodes?: string | undefined;
  /** The label whose one value all machines need, with WAITING_FOR_TOPOLOGY. */
  readonly topology?: string | undefined;
  readonly ahead: number;
  /** With the codes that concern queues. */
  readonly queue?: string | undefined;
  /** For people, of a session that has no queue to wait in. */
  readonly text?: string;
  /** The part of the quota that is short. */
  readonly quota?: { readonly pool: string; readonly resource: string; readonly requested: number } | undefined;
};

/** Answers of the ledger that a retry cannot change. */
export type Refusal = Extract<
  Fault,
  { readonly code: "pool_unknown" | "pool_capacity" | "reservation_differs" | "invalid_request" | "limit_exceeded" }
>;

/** The last answer of the ledger. `unknown`: it was not asked, or there is a hint that its answer has changed. */
export type ReservationSeen =
  | { readonly state: "unknown" }
  /** It is in no queue, and has no reservation: the queue that it needs does not exist, or never has enough. Asked for again with each pass. */
  | { readonly state: "unqueued"; /** Why, for people. */ readonly text: string }
  | {
      readonly state: "waiting";
      readonly id: string;
      readonly because: WaitReason | undefined;
    }
  | { readonly state: "granted"; readonly id: string; readonly machines: readonly Machine[] }
  | {
      readonly state: "refused";
      readonly fault: Refusal;
      /** A message for people; absent: the fault is clear by itself. */ readonly text?: string;
    };

/** The same for the replacement of a component's machine. `released`: it was released. */
export type ReplacementSeen = ReservationSeen | { readonly state: "released" };

export type Machine = { readonly component: string; readonly node: string };

/** A pod of the session as the API server itself lists it. */
export type LivePod = {
  readonly pod: string;
  readonly uid: string;
  readonly deleting: boolean;
  /** Its state, judged as a watcher does. */
  readonly seen: PodSeen;
  /** Its node, once the pod should have ended by itself; undefined before that, and if the node could not be read. */
  readonly overdueOn: NodeSeen | undefined;
  /** Every container has ended permanently, so that nothing of the pod runs on its machine. */
  readonly ended: boolean;
  /** Those that have started. */
  readonly containers: readonly string[];
  /** Termination message of the main container; empty while it runs. */
  readonly leftText: string;
};

/** An obstacle to the creation of a pod. */
export type Obstacle =
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
  /** How long this executor has had the session. */
  readonly heldMs: number;
  readonly record: SessionRecord;
  readonly reservation: ReservationSeen;
  readonly pods: readonly PodSeen[];
  /** Listed at the API server after the record was written, if `needsListing` asks for it; undefined: not listed. */
  readonly livePods: readonly LivePod[] | undefined;
  /** In a clean-up: an event reports its next progress (`isProgressReported`). */
  readonly isProgressReported: boolean;
  /** This executor is reading logs, or has not recorded yet that it did. */
  readonly isReading: boolean;
  readonly obstacles: readonly Obstacle[];
  /** Nodes of the session that are lost, and why; empty while that is not known. */
  readonly nodesLost: ReadonlyMap<string, LostReason>;
  /** Nodes that components share, and on which no pod can be started: they are lost to components without a pod there. */
  readonly nodesUnschedulable?: ReadonlyMap<string, LostReason>;
  /** Shared components whose machine has no room for their pod, because foreign pods run there. */
  readonly crowded?: readonly Crowded[];
  /** Granted nodes that components have lost, and that are usable again. */
  readonly nodesBack: ReadonlySet<string>;
  /** The last answer of the ledger about another machine for a component that lost its own, by component; absent: `unknown`. */
  readonly replacements: ReadonlyMap<string, ReplacementSeen>;
  /** The infrastructure failure of the previous pass, for people; undefined without one. */
  readonly trouble: string | undefined;
};

export type SessionPolicy = ForcePolicy & {
  /** From the verdict (and the pods' own time to end): a clean-up that takes longer is reported as a warning and left to the sweep. */
  readonly cleanupLimitMs: number;
  /** Interval of checks of terminating pods whose end no event reports. */
  readonly lookAgainMs: number;
  /** A component whose machine is lost before it has started waits this long for another one. */
  readonly replacementWaitMs: number;
};
