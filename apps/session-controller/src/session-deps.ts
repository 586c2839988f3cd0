import type { PassSpan } from "@muster/controller";
import { describeFault, findFault } from "@muster/faults";
import type { LostReason } from "@muster/health";
import type { Toleration } from "@muster/resources";
import type { Logger } from "@muster/service";
import type { Crowding } from "@muster/watch";
import type { ActStep } from "./domain/session-steps.ts";
import type { SessionRecord } from "./domain/session.ts";
import type { LivePod, PodObstacle, ReplacementSeen, ReservationSeen } from "./domain/snapshot.ts";
import type { PodSeen } from "./domain/summarise-components.ts";
import type { LogsRead, SessionOutcome } from "./domain/transition-record.ts";

/** Tolerations of the pods of the components on each node. */
type NodeTolerations = ReadonlyMap<string, readonly Toleration[]>;

export type StoredSession = { readonly record: SessionRecord; readonly revision: number };

/** The collect-logs step. Reading logs may take a minute, so passes do not wait for it. */
export type CollectStep = Extract<ActStep, { kind: "collect-logs" }>;
export type QuickStep = Exclude<ActStep, CollectStep>;

export type StepResult =
  | { readonly kind: "outcome"; readonly outcome: SessionOutcome }
  | { readonly kind: "reservation"; readonly reservation: ReservationSeen }
  | { readonly kind: "replacement"; readonly component: string; readonly reservation: ReplacementSeen }
  | { readonly kind: "obstacle"; readonly obstacle: PodObstacle }
  | { readonly kind: "nothing" };

/**
 * finished: the session is complete. waiting: the ledger queues the session. lost: another executor runs it. stopped: this process no longer leads. gone: the
 * record is missing. unreadable: the record does not decode. failed: a pass failed permanently.
 */
export type RunEnd = "finished" | "waiting" | "lost" | "stopped" | "gone" | "unreadable" | "failed";

/** External dependencies of running sessions. Asynchronous functions reject with FaultError. */
export type SessionDeps = {
  readonly now: () => number;
  /** A clock that continues while the process is stopped, and is never adjusted. */
  readonly monotonicMs: () => number;
  /** Identifies this process in the records of its sessions. */
  readonly executor: string;
  /** Fencing token of the lead under which this process runs sessions. */
  readonly token: number;
  /** Returns whether this process leads now; false in a process that was suspended for longer than the lead lasts. */
  readonly isHeld: () => boolean;
  readonly logger: Logger;
  readonly load: (name: string) => Promise<StoredSession | undefined>;
  /** Replaces exactly this revision, or rejects with conflict. Resolves to the new revision. */
  readonly save: (record: SessionRecord, revision: number) => Promise<number>;
  /** Newest known revision of the stored session; Infinity if the session is known to be deleted. */
  readonly newestRevision: (name: string) => number;
  readonly pods: (record: SessionRecord) => readonly PodSeen[];
  /** Returns whether a watcher has recently confirmed that it observes the cluster and that its publications arrive here. */
  readonly podsFresh: () => boolean;
  /** Returns the lost nodes among `names`, for a session with pods on the `occupied` nodes. */
  readonly nodesLost: (
    names: ReadonlySet<string>,
    occupied: ReadonlySet<string>,
    tolerations: NodeTolerations,
  ) => ReadonlyMap<string, LostReason>;
  /** Returns the nodes among `names` on which pods can start now. */
  readonly nodesUsable: (names: readonly string[], tolerations: NodeTolerations) => ReadonlySet<string>;
  /** Returns the session's places that foreign pods make unusable. */
  readonly crowding: Crowding;
  readonly listPods: (record: SessionRecord) => Promise<readonly LivePod[]>;
  /** Executes one step at the ledger or the API server, and returns its outcome. */
  readonly act: (record: SessionRecord, step: QuickStep) => Promise<StepResult>;
  /** Stores the logs of pods, and reports each pod once its logs are stored or lost. Resolves soon after the signal; rejects only for a defect. */
  readonly collectLogs: (
    record: SessionRecord,
    step: CollectStep,
    onRead: (read: LogsRead) => void,
    signal: AbortSignal,
  ) => Promise<void>;
  /** Publishes the events of the record from index `from` on. This executor recorded the events from `newFrom` on. */
  readonly announce: (record: SessionRecord, from: number, newFrom: number) => Promise<void>;
  /** Schedules a pass over the session. */
  readonly wake: (name: string) => void;
  /** Called when a later leader exists. This process no longer leads, whatever the state of its lock. */
  readonly standDown: () => void;
  /** Called when this process no longer runs a session. */
  readonly left: (name: string, end: RunEnd) => void;
  readonly span: (record: SessionRecord, phase: string) => PassSpan;
};

/** Describes a fault; rethrows any other error, which is a defect. */
export function getText(error: unknown): string {
  const fault = findFault(error);
  if (fault === undefined) throw error;
  return describeFault(fault);
}
