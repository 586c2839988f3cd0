import type { TroubleCode } from "./troubles.ts";

/** The node of one pod of a set. The pod is created from its placement, and a pod without one is deleted. */
export type ReplicaPlacement = {
  readonly node: string;
  /** Never reused in a set: a late deletion of a former placement's pod cannot delete a desired pod. */
  readonly ordinal: number;
  /** The hash of the template that the pod is built from. */
  readonly templateHash: string;
  readonly sinceMs: number;
  /** With a pool: the id of the machine's reservation. */
  readonly reservation: string | undefined;
};

/**
 * A machine of a pool that the set desires. The farm requests it from the ledger under the set's name and the number, and releases it once the record lacks it.
 */
export type ReplicaMachine = {
  /** Never reused in a set: a late release of a former number cannot release a desired machine. */
  readonly number: number;
  readonly pool: string;
  /** Undefined: not granted yet. */
  readonly grant: { readonly reservation: string; readonly node: string } | undefined;
  /** The time of the grant, or of the entry while it is not granted. */
  readonly sinceMs: number;
};

/** The exchange of one node for another. The set finds a new node and uses it beside the old one, then leaves the old one once the new pod is ready. */
export type PodTransfer = {
  readonly id: string;
  readonly oldNode: string;
  /** Undefined until the farm finds a node. */
  readonly newNode: string | undefined;
  /** After this time the transfer is abandoned and leaves the new node. */
  readonly deadlineMs: number;
  readonly startedAtMs: number;
  readonly because: TransferReason;
};

/**
 * Why the old node is left:
 *
 * - REQUESTED: by a client, `transferNode` (`requests.ts`); it is tried once, also from an eligible node
 *
 * - NODE_INELIGIBLE: `planStart` (`plan-transfer.ts`), with the reason why the node is ineligible
 */
export type TransferReason =
  { readonly code: "REQUESTED" } | { readonly code: "NODE_INELIGIBLE"; readonly detail: string };

/** An operator's hold: no transfer begins. */
export type TransferHold = { readonly by: string; readonly because: string; readonly atMs: number };

export type SetTrouble = { readonly code: TroubleCode; readonly message: string; readonly sinceMs: number };

export type ReplicaSetSpec = {
  /** Identifies the workload: a node has at most one pod with this id, of any set. */
  readonly podId: string;
  /** JSON of a Kubernetes pod template. */
  readonly template: string;
  /** Kubernetes label selector. */
  readonly nodeSelector: string;
  /** The ledger grants machines of this pool to the set; undefined: the set uses any node that matches the selector. */
  readonly pool: string | undefined;
  /** Unused for a daemon set. */
  readonly replicasDesired: number;
  /** `static`: a node is never exchanged for another one, whatever happens to it. */
  readonly allocationStrategy: "static" | "dynamic";
  /** True: one pod on each eligible node. */
  readonly daemon: boolean;
  readonly labels: Readonly<Record<string, string>>;
  /** A pod counts in a rolling update, and ends a transfer, once it has been ready for this time. */
  readonly minReadySeconds: number;
};

/** A stored replica set: the source of truth, also for the nodes that it is on. */
export type ReplicaSet = {
  readonly name: string;
  readonly uid: string;
  readonly spec: ReplicaSetSpec;
  /** No placement is added or removed and no pod is created or replaced; transfers continue. */
  readonly disabled: boolean;
  /** Ordered by the nodes' names. */
  readonly placements: readonly ReplicaPlacement[];
  readonly nextOrdinal: number;
  /** Set only with a pool; ordered by number. */
  readonly machines: readonly ReplicaMachine[];
  readonly nextMachine: number;
  readonly transfer: PodTransfer | undefined;
  readonly transfersHeld: TransferHold | undefined;
  /** Failed transfers since the last success. */
  readonly transferFailures: number;
  readonly transferNotBeforeMs: number;
  /** The id of its rolling update. */
  readonly rollout: string | undefined;
  readonly deletion: { readonly keepPods: boolean; readonly atMs: number } | undefined;
  readonly trouble: SetTrouble | undefined;
  /** Fencing token of its last owner; a farm with an older token writes no more. */
  readonly fence: number;
  /** Incremented by each change of the spec. */
  readonly generation: number;
  /** Audit records that are not published yet. */
  readonly outbox: readonly AuditRecord[];
  readonly createdAtMs: number;
  readonly requestId: string;
  /** The trace of the last request, or of the last later change that the farm began by itself. */
  readonly traceparent: string;
  /** Sets that rolling updates left beside this one, the latest last. They share nodes on purpose. */
  readonly sharesWith: readonly string[];
};

/** A new set without an owner. */
export const NEW_SET = {
  disabled: false,
  placements: [],
  nextOrdinal: 1,
  machines: [],
  nextMachine: 1,
  transfer: undefined,
  transfersHeld: undefined,
  transferFailures: 0,
  transferNotBeforeMs: 0,
  rollout: undefined,
  deletion: undefined,
  trouble: undefined,
  fence: 0,
  generation: 1,
  sharesWith: [],
} satisfies Partial<ReplicaSet>;

export const AUDIT_EVENTS = [
  "CREATED",
  "CHANGED",
  "SCALED",
  "ENABLED",
  "DISABLED",
  "TRANSFERS_HELD",
  "TRANSFERS_RELEASED",
  "DELETED",
  "REPLICATION_CONTROLLER_RETARGET",
  "NODE_TRANSFER_START",
  "NODE_TRANSFER_COMPLETION",
  "NODE_TRANSFER_ROLLBACK",
  "ROLLING_UPDATE_CREATION",
  "ROLLING_UPDATE_PAUSE",
  "ROLLING_UPDATE_RESUME",
  "ROLLING_UPDATE_UNDO",
  "ROLLING_UPDATE_REDO",
  "ROLLING_UPDATE_COMPLETION",
] as const;

export type AuditEvent = (typeof AUDIT_EVENTS)[number];

/** The audit of a change, written together with the change. */
export type AuditRecord = {
  readonly id: string;
  readonly eventType: AuditEvent;
  /** The details as JSON. */
  readonly details: string;
  readonly timestampMs: number;
  readonly replicaSet: string;
  readonly traceparent: string;
};

/** Maximum length of a set's name: a pod's name adds a hyphen and its ordinal. */
export const MAX_NAME_LENGTH = 50;
/** Maximum number of replicas of one set: its record, with the names of its nodes, stays below the maximum value size of a bucket. */
export const MAX_REPLICAS = 1000;

/** Maximum number of sets that one set shares its nodes with; the earliest is dropped. */
export const MAX_SHARES = 16;

/** The fallback is longer than a program that fails at its start runs: without a probe, the pod of that program is ready until it fails. */
export const MIN_READY_SECONDS = { fallback: 5, max: 3600 };

/** Returns the name of a placement's pod, the same for every creator. */
export function buildPodName(set: string, ordinal: number): string {
  return `${set}-${ordinal}`;
}
