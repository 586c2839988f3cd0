import type { Amounts } from "@muster/resources";

/** The amounts that pods and grants share. */
export type RoomSeen = {
  /** Allocatable amounts by node. */
  readonly allocatable: ReadonlyMap<string, Amounts>;
  /** Foreign pods that exist since before the first request, and the time of their end. */
  readonly residents: readonly { readonly name: string; readonly node: string; readonly untilMs: number | undefined }[];
  /** By node: the amounts that bound pods requested beyond the node's allocatable ones. */
  readonly exceeded: ReadonlyMap<string, string>;
};

/** The observations of one run, as plain data for the checks and for reports. */
export type RunObservations = {
  /** Final states of sessions by name. */
  readonly sessions: ReadonlyMap<string, SessionSeen>;
  /** Every job that ever existed, by name. */
  readonly jobs: ReadonlyMap<string, JobSeen>;
  /** Names of the sessions and jobs whose submission was acknowledged. */
  readonly acknowledged: ReadonlySet<string>;
  /** The non-retryable error that its user received, by session or job. */
  readonly refused: ReadonlyMap<string, string>;
  /** Kinds of published events by session. */
  readonly published: ReadonlyMap<string, ReadonlySet<string>>;
  /** Every pod of Muster that ever existed. */
  readonly pods: readonly PodSeen[];
  /** The facts of the ledger's log, in order. */
  readonly ledger: readonly LedgerFact[];
  readonly outages: readonly Outage[];
  readonly podDeletions: readonly PodDeletion[];
  readonly faults: readonly FaultSeen[];
  readonly left: Leftovers;
  /** Undefined if nodes have no sizes. */
  readonly room?: RoomSeen;
  /** Undefined if the run has no queues. */
  readonly queues?: readonly QueueSeen[];
};

/** One queue, from all its observed states. Amounts by pool and resource, `workers cpu`. */
export type QueueSeen = {
  readonly name: string;
  /** Last observed reason of the phase. */
  readonly reason: string;
  readonly pending: number;
  readonly admitted: number;
  readonly used: ReadonlyMap<string, number>;
  /** The maximum of all observed states. */
  readonly maxUsed: ReadonlyMap<string, number>;
};

export type EventSeen = {
  readonly kind: string;
  readonly atMs: number;
  readonly reason: string;
  readonly description: string;
};

export type SessionSeen = {
  readonly name: string;
  readonly createdAtMs: number;
  /** 0 before its end. */
  readonly finishedAtMs: number;
  readonly events: readonly EventSeen[];
  readonly components: readonly {
    readonly name: string;
    readonly state: string;
    readonly node: string;
    readonly message: string;
  }[];
  readonly resultJson: string;
  readonly warnings: readonly string[];
  readonly waitingBecause: string;
};

/** One job, from all its observed changes. */
export type JobSeen = {
  readonly name: string;
  readonly createdAtMs: number;
  /** The changes of its terminal conditions: `Succeeded`, `Failed PodFailed`; `none` after one was removed. */
  readonly ends: readonly string[];
  readonly endedAtMs: number | undefined;
  /** Time of the deletion of the pod; undefined: the pod exists. */
  readonly goneMs: number | undefined;
  /** Last conditions of the pod, for reports. */
  readonly state: string;
};

export type WorkKind = "session" | "job";

/** The session or job of an owner id: the part before the first hyphen, because names have no hyphen here. */
export function getWorkOfOwner(ownerId: string): string {
  return ownerId.split("-", 1)[0] ?? "";
}

/** One pod, by its uid. The places count the observed changes of all pods, in order. */
export type PodSeen = {
  readonly name: string;
  readonly uid: string;
  /** Kind of its owner. */
  readonly kind: WorkKind;
  /** The name of the session or job. */
  readonly work: string;
  /** Role of the pod: `driver`, `worker-3`. */
  readonly component: string;
  readonly firstSeenMs: number;
  /** Whether it was ever observed without its scheduling gate. */
  readonly confirmed: boolean;
  /** Whether the work uses only a part of its machine. */
  readonly isShared?: boolean;
  readonly node: string;
  readonly boundPlace: number | undefined;
  /** Place of its end or its deletion, whichever was observed first. */
  readonly endPlace: number | undefined;
  readonly goneMs: number | undefined;
  /** Observed states of the pod: `Pending`, `Running`, `deleting`. */
  readonly states: readonly string[];
};

export type LedgerFact =
  | {
      readonly kind: "granted";
      readonly atMs: number;
      readonly reservation: string;
      readonly work: string;
      /** Including nodes that are granted in parts. */
      readonly nodes: readonly string[];
      /** The granted parts. */
      readonly parts?: readonly { readonly node: string; readonly requests: Amounts }[];
      readonly queue?: string;
      /** Use of the queue's quota, by pool and resource. */
      readonly use?: ReadonlyMap<string, number>;
    }
  | { readonly kind: "ended"; readonly atMs: number; readonly reservation: string };

/** The deletion of a job's pod by a user. */
export type PodDeletion = { readonly work: string; readonly pod: string; readonly atMs: number };

/** The time in which a machine was off. */
export type Outage = { readonly node: string; readonly fromMs: number; readonly toMs: number };

/** An injected fault. It has no time when its session or job never reached the phase. */
export type FaultSeen = {
  readonly id: string;
  readonly text: string;
  readonly fromMs: number | undefined;
  readonly toMs: number | undefined;
};

/** The objects that existed when all should have been removed. */
export type Leftovers = {
  readonly pods: readonly string[];
  /** Expired or deleted jobs. */
  readonly jobs: readonly string[];
  /** Services and budgets of jobs. */
  readonly objects: readonly string[];
  readonly reservations: readonly string[];
  readonly machines: readonly string[];
  readonly deadLetters: readonly string[];
  /** Use of queues, and states of queues that differ from the ledger. Undefined if the run has no queues. */
  readonly queues?: readonly string[];
  readonly locks: readonly string[];
};

/** The granted machines of each session and job. */
export function groupNodesByWork(ledger: readonly LedgerFact[]): ReadonlyMap<string, ReadonlySet<string>> {
  const found = new Map<string, Set<string>>();
  for (const entry of ledger) {
    if (entry.kind !== "granted") continue;
    const nodes = found.get(entry.work) ?? new Set();
    for (const node of entry.nodes) nodes.add(node);
    found.set(entry.work, nodes);
  }
  return found;
}
