import type { LivePod, ReplacementSeen, ReservationSeen, PodObstacle } from "./domain/snapshot.ts";
import type { Rejection } from "@muster/health";
import { isQueuedAtLedger, type SessionRecord } from "./domain/session.ts";
import type { LogsRead, SessionOutcome } from "./domain/transition-record.ts";

/** A session that belongs to this executor, as far as it knows. */
export type HeldSession = {
  /** The record including `unwritten`. */
  record: SessionRecord;
  revision: number;
  /** Outcomes that the next executor would observe again; they are written together with those that it would not. */
  unwritten: readonly SessionOutcome[];
  /** Monotonic time at which the session was certainly ours. */
  oursAtMs: number;
};

/** The executor's state beyond the record; the next executor can rebuild it. */
export type SessionRun = HeldSession & {
  /** True if the stored record may be newer. */
  stale: boolean;
  /** True after a failed write that the store may have accepted. */
  isWriteUnknown: boolean;
  /** Monotonic time after which pods without news from a watcher are listed at the API server. */
  listPodsAtMs: number;
  /** The pods of the clean-up's last list, with those deleted since; its time, on the monotonic clock. */
  lastList: { readonly atMs: number; readonly pods: readonly LivePod[] } | undefined;
  /** As in the snapshot of the last pass. */
  isProgressReported: boolean;
  reservation: ReservationSeen;
  /** The ledger's last answer about each component's replacement. */
  replacements: ReadonlyMap<string, ReplacementSeen>;
  obstacles: readonly PodObstacle[];
  /** Machines that rejected pods of this executor. */
  rejections: readonly Rejection[];
  trouble: { readonly of: "list" | "steps"; readonly text: string } | undefined;
  /** True after a failure in this round, which is retried after a pause. */
  failed: boolean;
  /** Aborts all reads of logs. */
  readonly stopReading: AbortController;
  /** The read of logs in flight. Never rejects. */
  reading: Promise<void> | undefined;
  /** Reports of the read that are not in the record yet. */
  readonly read: LogsRead[];
  defect: { readonly error: unknown } | undefined;
  announced: number;
  /** Monotonic time at which this executor took the session over. */
  readonly takenAtMs: number;
  /** Number of events in the record when this executor took the session over. */
  readonly inherited: number;
};

/** Pauses between attempts after failures of a session. */
export const RETRY = { firstMs: 200, maxMs: 10_000 };
/** Maximum interval of reads of the record and its pods, in case a hint was lost. */
export const RESYNC_MS = 10_000;

export function makeSessionRun(held: HeldSession): SessionRun {
  const { record, oursAtMs } = held;
  return {
    ...held,
    stale: false,
    isWriteUnknown: false,
    // The previous executor's pods may be gone; the watcher gets time to report our own.
    listPodsAtMs: record.components.some(({ podUid }) => podUid !== "") ? oursAtMs : oursAtMs + RESYNC_MS,
    lastList: undefined,
    isProgressReported: false,
    reservation: { state: "unknown" },
    replacements: new Map(),
    obstacles: [],
    rejections: [],
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

/** Returns whether only the ledger, the user or the clock can change the session: it needs no memory then. */
export function isQueuedRun({ record, reservation, failed }: SessionRun): boolean {
  return !failed && isQueuedAtLedger(record) && reservation.state === "waiting";
}
