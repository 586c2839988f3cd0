export type ComponentKind = "driver" | "server" | "client";

type EnvVar = { readonly name: string; readonly value: string };

/** One role of a session: one pod on a machine, or on a part of a machine, of an accepted pool. */
export type Component = {
  readonly name: string;
  readonly kind: ComponentKind;
  readonly pool: string;
  /** Further accepted pools, in order of preference. Components that accept the same pools get machines of one of them. */
  readonly otherPools: readonly string[];
  /** Empty: the service's default image. */
  readonly image: string;
  readonly command: readonly string[];
  readonly args: readonly string[];
  readonly env: readonly EnvVar[];
  readonly workingDir: string;
  /** The component is ready only when this port answers; 0: when it runs. */
  readonly readyPort: number;
  /** JSON of a checked pod template; empty: none. */
  readonly templateJson: string;
  /** The pod gets a part of a machine with the requests of its template. Otherwise it gets a whole machine. */
  readonly shared: boolean;
};

/** The session to run, with all defaults filled in, so that a later change of defaults does not affect existing sessions. */
export type SessionSpec = {
  readonly components: readonly Component[];
  readonly scenarioJson: string;
  /** Time limit of provisioning and running together; 0: no limit. */
  readonly timeoutMs: number;
  readonly queueTimeoutMs: number;
  readonly ttlMs: number;
  readonly priority: number;
  readonly workerPort: number;
  readonly killAfterMs: number;
  /** The queue whose quota the session's machines use; empty: the queue of the namespace, if queues exist. */
  readonly queue: string;
  /** Label whose value must be equal on all nodes of the session; empty: the nodes may be anywhere. */
  readonly topology: string;
};

/**
 * How a session ends, and the functions that decide it; those without a file are in `decide-verdict.ts`.
 * - DONE: `decideVerdict`
 * - ERROR: as `EndReason` lists
 * - CANCELLED: `decideVerdict`; before the first pass `transitionCancel` (`transition-record.ts`)
 * - INTERNAL_ERROR: `decideReplacement`, `decideQueue`, `decideGrant`, `decideTimeout`; of a session that cannot be run `planBrokenSession` (`plan-session.ts`)
 */
export const TERMINAL_KINDS = ["DONE", "ERROR", "CANCELLED", "INTERNAL_ERROR"] as const;
export type TerminalKind = (typeof TERMINAL_KINDS)[number];
export type EventKind = "QUEUE" | "ACCEPT" | "PROVISION" | "RUN" | TerminalKind;

/**
 * The stable words behind an ERROR, and the functions that set them; those without a file are in `decide-verdict.ts`.
 * - COMPONENT_FAILED: `decideComponentFailure`, from the states of `summariseComponents` (`summarise-components.ts`)
 * - TIMEOUT: `decideTimeout`
 * - QUEUE_TIMEOUT, POOL_UNKNOWN, POOL_CAPACITY, RESERVATION_DIFFERS, INVALID_REQUEST: `decideQueue`
 * - POD_REFUSED, POD_NAME_TAKEN: `decideObstacle`, from `decideRefusal` and `adoptPod` (`adapters/pods.ts`)
 * - MACHINE_LOST: `decideReplacement`
 * - OTHER: a word that this version does not know
 */
export const END_REASONS = [
  "COMPONENT_FAILED",
  "TIMEOUT",
  "QUEUE_TIMEOUT",
  "POOL_UNKNOWN",
  "POOL_CAPACITY",
  "RESERVATION_DIFFERS",
  "INVALID_REQUEST",
  "POD_REFUSED",
  "POD_NAME_TAKEN",
  "MACHINE_LOST",
  "OTHER",
] as const;
export type EndReason = (typeof END_REASONS)[number];

export type SessionEvent<Kind extends EventKind = EventKind> = {
  readonly kind: Kind;
  readonly atMs: number;
  readonly description: string;
  /** The reason of an ERROR; empty for other kinds. */
  readonly reason: EndReason | "";
};

export type SessionVerdict = SessionEvent<TerminalKind>;

export type PodHealth = "UNKNOWN" | "READY" | "NOT_READY" | "SUCCEEDED" | "FAILED";
/**
 * PENDING: no pod exists yet. CREATED: the pod exists, and its health is not known yet. STOPPED: the component was ready until the clean-up deleted its pod.
 * The other states are healths of the pod.
 */
export const COMPONENT_STATES = [
  "PENDING",
  "CREATED",
  "UNKNOWN",
  "READY",
  "NOT_READY",
  "SUCCEEDED",
  "FAILED",
  "STOPPED",
] as const satisfies readonly (PodHealth | "PENDING" | "CREATED" | "STOPPED")[];
export type ComponentState = (typeof COMPONENT_STATES)[number];

export type ComponentStatus = {
  readonly name: string;
  readonly kind: ComponentKind;
  /** The pool of the component's machine or replacement machine; before the grant, the first pool that the component accepts. */
  readonly pool: string;
  readonly node: string;
  readonly pod: string;
  /** Uid of the one pod that is this component; empty before its creation. States of other pods of this name do not count. */
  readonly podUid: string;
  readonly podIp: string;
  readonly state: ComponentState;
  readonly message: string;
  readonly exitCode: number | undefined;
  /** Time at which the component's machine was last lost before the component started; 0: never. `node` is empty until a replacement is granted. */
  readonly lostAtMs: number;
  /** The lost machine; empty: none. */
  readonly lostNode: string;
};

/** OTHER: a word that this version does not know. */
export const WARNING_CODES = [
  "LOGS_LOST",
  "RESULT_LOST",
  "PODS_NOT_GONE",
  "NOT_RELEASED",
  "PRIORITY_LOWERED",
  "OTHER",
] as const;

export type SessionWarning = {
  readonly code: (typeof WARNING_CODES)[number];
  readonly message: string;
};

/** The stored state of a session, with which any replica can take the session over. */
export type SessionRecord = {
  /** The key of the record, and the owner id of machines and pods. In MUSTER_NAMESPACE it equals the name that users give the session. */
  readonly name: string;
  /** Absent: the session is in MUSTER_NAMESPACE. */
  readonly elsewhere?: Elsewhere | undefined;
  readonly uid: string;
  readonly requestId: string;
  readonly spec: SessionSpec;
  readonly events: readonly SessionEvent[];
  readonly components: readonly ComponentStatus[];
  readonly resultJson: string;
  readonly warnings: readonly SessionWarning[];
  readonly createdAtMs: number;
  /** 0 until the terminal event. */
  readonly finishedAtMs: number;
  readonly cancelRequested: boolean;
  /** W3C traceparent of the submission; empty if it had none. */
  readonly traceparent: string;
  readonly waitingBecause: string;
  /** Fencing token of the lead under which the session's executor took it over; 0: no executor has taken it over. */
  readonly epoch: number;
  readonly executor: string;
  /** Consecutive executors without progress, including the current one. An executor that hands the session back does not count. */
  readonly attempts: number;
  /** The outcome once it is decided; the clean-up ends with it as the terminal event. */
  readonly verdict: SessionVerdict | undefined;
  readonly logsCollected: boolean;
  /** Names of the pods whose logs are stored or lost; empty again once `logsCollected` is true. */
  readonly logsRead: readonly string[];
  readonly podsDeleted: boolean;
  readonly released: boolean;
  /** The reservation that waits for or holds the machines; empty until the ledger has returned it. */
  readonly reservationId: string;
};

/** A session in another namespace than MUSTER_NAMESPACE. */
export type Elsewhere = {
  readonly namespace: string;
  /** The name that users give the session, which is unique only in its namespace. */
  readonly name: string;
};

/** Returns the name that users give the session. */
export function getGivenName({ name, elsewhere }: Pick<SessionRecord, "name" | "elsewhere">): string {
  return elsewhere?.name ?? name;
}

/** Returns the name of the pod of one component of the session. */
export function getPodName(session: Pick<SessionRecord, "name" | "elsewhere">, component: string): string {
  return buildPodName(getGivenName(session), component);
}

export function buildPodName(session: string, component: string): string {
  return `${session}-${component}`;
}

/** True while a component that lost its machine before it started has no replacement. */
export function isReplacing({ lostAtMs, node }: Pick<ComponentStatus, "lostAtMs" | "node">): boolean {
  return lostAtMs > 0 && node === "";
}

/** True once the terminal event is written: after that, nothing visible to users changes. */
export function isFinished(record: SessionRecord): boolean {
  return record.finishedAtMs > 0;
}

/** Returns the time in ms since 1970 at which the queue timeout ends. */
export function computeQueuedUntilMs({ createdAtMs, spec }: Pick<SessionRecord, "createdAtMs" | "spec">): number {
  return createdAtMs + spec.queueTimeoutMs;
}

/** True while the ledger queues the session: only a grant, a cancellation or the queue timeout changes it. */
export function isQueuedAtLedger(record: SessionRecord): boolean {
  return record.reservationId !== "" && isInQueue(record);
}

/** True until the session has its machines, or its outcome is known. */
export function isInQueue(record: SessionRecord): boolean {
  return record.finishedAtMs === 0 && record.verdict === undefined && findEvent(record, "ACCEPT") === undefined;
}

export function findEvent(record: SessionRecord, kind: EventKind): SessionEvent | undefined {
  return record.events.find((event) => event.kind === kind);
}

type NewSession = {
  readonly name: string;
  readonly elsewhere?: Elsewhere | undefined;
  readonly uid: string;
  readonly requestId: string;
  readonly spec: SessionSpec;
  readonly traceparent: string;
  readonly nowMs: number;
  /** The wait reason until an executor takes the session. */
  readonly waitingBecause: string;
};

/** Builds a new session's record in the queue, before any other event. */
export function buildRecord(session: NewSession): SessionRecord {
  const { name, elsewhere, uid, requestId, spec, traceparent, nowMs, waitingBecause } = session;
  return {
    name,
    ...(elsewhere !== undefined && { elsewhere }),
    uid,
    requestId,
    spec,
    events: [{ kind: "QUEUE", atMs: nowMs, description: "submitted", reason: "" }],
    components: spec.components.map((component) => ({
      name: component.name,
      kind: component.kind,
      pool: component.pool,
      node: "",
      pod: buildPodName(elsewhere?.name ?? name, component.name),
      podUid: "",
      podIp: "",
      state: "PENDING",
      message: "",
      exitCode: undefined,
      lostAtMs: 0,
      lostNode: "",
    })),
    resultJson: "",
    warnings: [],
    createdAtMs: nowMs,
    finishedAtMs: 0,
    cancelRequested: false,
    traceparent,
    waitingBecause,
    epoch: 0,
    executor: "",
    attempts: 0,
    verdict: undefined,
    logsCollected: false,
    logsRead: [],
    podsDeleted: false,
    released: false,
    reservationId: "",
  };
}
