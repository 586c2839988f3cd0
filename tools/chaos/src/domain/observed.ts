/** What was seen of one run, as plain data: what is judged, and what can be kept beside a failure. */
export type Observed = {
  /** By name; as they are at the end. */
  readonly sessions: ReadonlyMap<string, SessionSeen>;
  /** By name; every one that there ever was. */
  readonly jobs: ReadonlyMap<string, JobSeen>;
  /** Names of the sessions and jobs whose submission was acknowledged. */
  readonly acknowledged: ReadonlySet<string>;
  /** By session or job: what its user was told that no further attempt can help. */
  readonly refused: ReadonlyMap<string, string>;
  /** By session: the kinds of events that were published of it, each once. */
  readonly published: ReadonlyMap<string, ReadonlySet<string>>;
  /** Every pod of Muster's that the API server ever had. */
  readonly pods: readonly PodSeen[];
  /** What the ledger's log says, in its order. */
  readonly ledger: readonly LedgerFact[];
  readonly outages: readonly Outage[];
  readonly podDeletions: readonly PodDeletion[];
  readonly faults: readonly FaultSeen[];
  readonly left: Left;
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
  /** 0: it has not ended. */
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

/** One job, as every change of it was seen. */
export type JobSeen = {
  readonly name: string;
  readonly createdAtMs: number;
  /** What stood in its terminal conditions, each change once: `Succeeded`, `Failed PodFailed`; `none` after one that went away. */
  readonly ends: readonly string[];
  readonly endedAtMs: number | undefined;
  /** When it was not there any more. */
  readonly goneMs: number | undefined;
  /** Its conditions as they were last, for people. */
  readonly state: string;
};

export type WorkKind = "session" | "job";

/** The name of the session or job that an owner in the ledger, or on a pod, stands for: the beginning of its id. Names have no hyphen here. */
export function workOf(ownerId: string): string {
  return ownerId.split("-", 1)[0] ?? "";
}

/** One pod by its uid. The places count what was seen of all pods, in its order. */
export type PodSeen = {
  readonly name: string;
  readonly uid: string;
  /** What it belongs to. */
  readonly kind: WorkKind;
  /** The name of its session or job. */
  readonly work: string;
  /** Which of its pods: `driver`, `worker-3`. */
  readonly component: string;
  readonly firstSeenMs: number;
  /** Whether it was ever seen without the gate behind which it is made. */
  readonly confirmed: boolean;
  readonly node: string;
  readonly boundPlace: number | undefined;
  /** Where it was first seen to have ended or to be gone. */
  readonly endPlace: number | undefined;
  readonly goneMs: number | undefined;
  /** What it was seen doing, each once: `Pending`, `Running`, `deleting`. */
  readonly states: readonly string[];
};

export type LedgerFact =
  | {
      readonly fact: "granted";
      readonly atMs: number;
      readonly reservation: string;
      readonly work: string;
      readonly nodes: readonly string[];
    }
  | { readonly fact: "ended"; readonly atMs: number; readonly reservation: string };

/** A pod of a job that somebody deleted by hand. */
export type PodDeletion = { readonly work: string; readonly pod: string; readonly atMs: number };

/** A machine that was off. */
export type Outage = { readonly node: string; readonly fromMs: number; readonly toMs: number };

/** A fault as it came true; one whose session never reached the phase has no time. */
export type FaultSeen = {
  readonly id: string;
  readonly text: string;
  readonly fromMs: number | undefined;
  readonly toMs: number | undefined;
};

/** What there still was when everything should have been gone. */
export type Left = {
  readonly pods: readonly string[];
  /** Jobs that have a time, or a user who wants them gone. */
  readonly jobs: readonly string[];
  /** Services and budgets of jobs. */
  readonly objects: readonly string[];
  readonly reservations: readonly string[];
  readonly machines: readonly string[];
  readonly deadLetters: readonly string[];
  readonly locks: readonly string[];
};

/** The machines of each session and job, as the log granted them. */
export function nodesByWork(ledger: readonly LedgerFact[]): ReadonlyMap<string, ReadonlySet<string>> {
  const found = new Map<string, Set<string>>();
  for (const entry of ledger) {
    if (entry.fact !== "granted") continue;
    const nodes = found.get(entry.work) ?? new Set();
    for (const node of entry.nodes) nodes.add(node);
    found.set(entry.work, nodes);
  }
  return found;
}
