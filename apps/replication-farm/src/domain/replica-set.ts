/** Where one pod of a set is to be. Its pod is made from what stands here, and one that stands nowhere is deleted. */
export type Placement = {
  readonly node: string;
  /** Never used twice in a set: whoever deletes the pod of a placement that is gone can delete no pod that is wanted. */
  readonly ordinal: number;
  /** Of the template that the pod is made from. */
  readonly templateHash: string;
  readonly sinceMs: number;
  /** With a pool: id of the machine's reservation. */
  readonly reservation: string | undefined;
};

/** A machine of a pool that the set wants to have: asked of the ledger under the set's name and the number, and given back once it stands nowhere any more. */
export type Machine = {
  /** Never used twice in a set: whoever gives back what stands under a number that is gone can give back nothing that is wanted. */
  readonly number: number;
  readonly pool: string;
  /** Undefined: not granted yet. */
  readonly grant: { readonly reservation: string; readonly node: string } | undefined;
  /** Of the grant, or of the wish as long as there is none. */
  readonly sinceMs: number;
};

/** The exchange of one node for another: the new one is sought, then placed beside the old one, which goes once the new pod is ready. */
export type Transfer = {
  readonly id: string;
  readonly oldNode: string;
  /** Undefined as long as none is known. */
  readonly newNode: string | undefined;
  /** Given up then, and the new node given back. */
  readonly deadlineMs: number;
  readonly startedAtMs: number;
  /** Why the old node had to go. */
  readonly because: string;
};

/** An operator's order that no transfer begins. */
export type TransferHold = { readonly by: string; readonly because: string; readonly atMs: number };

export type TroubleCode =
  | "TOO_FEW_NODES"
  | "NO_ELIGIBLE_NODES"
  | "NOT_HEALTHY"
  | "OVERLAP"
  | "POD_REFUSED"
  | "TRANSFER_FAILED"
  | "ROLL_SET_MISSING"
  | "ROLL_STUCK"
  | "WAITING_FOR_MACHINE"
  | "MACHINE_REFUSED"
  | "MACHINES_GONE"
  | "LEDGER_AWAY";

export type Trouble = { readonly code: TroubleCode; readonly message: string; readonly sinceMs: number };

export type ReplicaSetSpec = {
  /** What runs, of which a node has one at most, whatever sets it belongs to. */
  readonly podId: string;
  /** JSON of a Kubernetes pod template. */
  readonly template: string;
  /** Kubernetes label selector. */
  readonly nodeSelector: string;
  /** Machines that the ledger gives to the set; undefined: any node that matches the selector. */
  readonly pool: string | undefined;
  /** Of a daemon set this is not looked at. */
  readonly replicasDesired: number;
  /** `static`: a node is never exchanged for another one, whatever becomes of it. */
  readonly allocationStrategy: "static" | "dynamic";
  /** A pod on each eligible node. */
  readonly daemon: boolean;
  readonly labels: Readonly<Record<string, string>>;
  /** A pod counts in a rolling update, and ends a transfer, once it has been ready for so long. */
  readonly minReadySeconds: number;
};

/** A replica set as it is stored: the truth, also about which nodes it is on. */
export type ReplicaSet = {
  readonly name: string;
  readonly uid: string;
  readonly spec: ReplicaSetSpec;
  /** No place is added or removed and no pod is created or replaced; transfers continue. */
  readonly disabled: boolean;
  /** In the order of the nodes' names. */
  readonly placements: readonly Placement[];
  readonly nextOrdinal: number;
  /** With a pool, in the order of their numbers. */
  readonly machines: readonly Machine[];
  readonly nextMachine: number;
  readonly transfer: Transfer | undefined;
  readonly transfersHeld: TransferHold | undefined;
  /** Transfers that failed since one succeeded. */
  readonly transferFailures: number;
  readonly transferNotBeforeMs: number;
  /** Id of the rolling update that it is in. */
  readonly roll: string | undefined;
  readonly deletion: { readonly keepPods: boolean; readonly atMs: number } | undefined;
  readonly trouble: Trouble | undefined;
  /** Fencing token of the farm that owned it last; who has an older one writes no more. */
  readonly fence: number;
  /** Raised by each change of the spec. */
  readonly generation: number;
  /** What was audited and is not yet on the audit stream. */
  readonly outbox: readonly AuditRecord[];
  readonly createdAtMs: number;
  readonly requestId: string;
  /** Of what somebody asked for last, or of what the farm began after that by itself. */
  readonly traceparent: string;
  /** Sets that rolling updates left beside this one, the latest last: they share their nodes on purpose. */
  readonly sharesWith: readonly string[];
};

/** A set to which nothing has happened yet, and which no farm has owned. */
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
  roll: undefined,
  deletion: undefined,
  trouble: undefined,
  fence: 0,
  generation: 1,
  sharesWith: [],
} satisfies Partial<ReplicaSet>;

export type AuditEvent =
  | "CREATED"
  | "CHANGED"
  | "SCALED"
  | "ENABLED"
  | "DISABLED"
  | "TRANSFERS_HELD"
  | "TRANSFERS_RELEASED"
  | "DELETED"
  | "REPLICATION_CONTROLLER_RETARGET"
  | "NODE_TRANSFER_START"
  | "NODE_TRANSFER_COMPLETION"
  | "NODE_TRANSFER_ROLLBACK"
  | "ROLLING_UPDATE_CREATION"
  | "ROLLING_UPDATE_PAUSE"
  | "ROLLING_UPDATE_RESUME"
  | "ROLLING_UPDATE_UNDO"
  | "ROLLING_UPDATE_REDO"
  | "ROLLING_UPDATE_COMPLETION";

/** What was done to a set, written together with what was done. */
export type AuditRecord = {
  readonly id: string;
  readonly eventType: AuditEvent;
  /** JSON. */
  readonly details: string;
  readonly timestampMs: number;
  readonly replicaSet: string;
  readonly traceparent: string;
};

/** Longest name of a set: a pod's name adds a hyphen and its ordinal. */
export const NAME_CHARACTERS_MAX = 50;
/** Most replicas of one set: its record, with the names of its nodes, stays below the largest value of a bucket. */
export const REPLICAS_MAX = 1000;

/** Most sets that one shares its nodes with; the earliest is forgotten. */
export const SHARES_MAX = 16;

/** Longer than a program runs that fails at its start, which is ready for that moment when it has no probe. */
export const MIN_READY_SECONDS = { fallback: 5, max: 3600 };

/** The pod of a placement; equal for whoever makes it. */
export function podNameOf(set: string, ordinal: number): string {
  return `${set}-${ordinal}`;
}
