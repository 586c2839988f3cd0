import type { LivePod, ReplacementSeen, ReservationSeen, Obstacle } from "./domain/snapshot.ts";
import { isQueuedAtLedger, type SessionRecord } from "./domain/session.ts";
import type { LogsRead, Outcome } from "./domain/transition-record.ts";

/** A session that belongs to this executor, as far as it knows. */
export type HeldSession = {
  /** With `unwritten`. */
  record: SessionRecord;
  revision: number;
  /** Outcomes that the next executor would observe again; they are written together with those that it would not. */
  unwritten: readonly Outcome[];
  /** On the monotonic clock: the session was ours at this moment. */
  oursAtMs: number;
};

/** The state of one executor beyond the record; the next executor can rebuild it. */
export type Run = HeldSession & {
  /** The stored record may be newer. */
  stale: boolean;
  /** A write failed, but may have happened. */
  isWriteUnknown: boolean;
  /** On the monotonic clock: from this moment on pods without news from a watcher are listed at the API server. */
  listPodsAtMs: number;
  /** The pods of the clean-up's last list, with those deleted since; its time, on the monotonic clock. */
  lastList: { readonly atMs: number; readonly pods: readonly LivePod[] } | undefined;
  /** As in the snapshot of the last pass. */
  isProgressReported: boolean;
  reservation: ReservationSeen;
  /** By component. */
  replacements: ReadonlyMap<string, ReplacementSeen>;
  obstacles: readonly Obstacle[];
  trouble: { readonly of: "list" | "steps"; readonly text: string } | undefined;
  /** A failure in this round, which is retried after a pause. */
  failed: boolean;
  /** Ends all reading of logs. */
  readonly stopReading: AbortController;
  /** The read of logs in flight. Never rejects. */
  reading: Promise<void> | undefined;
  /** Its reports that are not in the record yet. */
  readonly read: LogsRead[];
  defect: { readonly error: unknown } | undefined;
  announced: number;
  /** On the monotonic clock: when this executor took the session over. */
  readonly takenAtMs: number;
  /** Events that the record had when this executor took the session over. */
  readonly inherited: number;
};

/** Pauses between attempts at what failed for a session. */
export const RETRY = { firstMs: 200, maxMs: 10_000 };
/** Maximum interval of reads of the record and its pods, in case a hint was lost. */
export const RESYNC_MS = 10_000;

export function newRun(held: HeldSession): Run {
  const { record, oursAtMs } = held;
  return {
    ...held,
    stale: false,
    isWriteUnknown: false,
    // Pods of the previous executor may be gone; the watcher gets time to report our own.
    listPodsAtMs: record.components.some(({ podUid }) => podUid !== "") ? oursAtMs : oursAtMs + RESYNC_MS,
    lastList: undefined,
    isProgressReported: false,
    reservation: { state: "unknown" },
    replacements: new Map(),
    obstacles: [],
    trouble: undefined,
    failed: false,
    stopReading: new AbortController(),
    reading: undefined,
    read: [],
    defect: undefined,
    announced: 0,
    takenAtMs: oursAtMs,
    inherited: record.events.length,
  };
}

/** Whether only the ledger, the user or the clock can change anything: such a session needs no memory. */
export function isQueuedRun({ record, reservation, failed }: Run): boolean {
  return !failed && isQueuedAtLedger(record) && reservation.state === "waiting";
}
