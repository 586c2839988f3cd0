import type { LivePod, ReplacementSeen, ReservationSeen, PodObstacle } from "./domain/snapshot.ts";
import type { Rejection } from "@muster/health";
import { isQueuedAtLedger, type SessionRecord } from "./domain/session.ts";
import type { LogsRead, SessionOutcome } from "./domain/transition-record.ts";

/** A session that this executor owns, as far as it knows. */
export type HeldSession = {
  /** The record including `unwritten`. */
  record: SessionRecord;
  revision: number;
  /** Outcomes that the next executor would observe itself. They are written together with the next outcome that it could not observe. */
  unwritten: readonly SessionOutcome[];
  /** Monotonic time at which this executor certainly owned the session. */
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
  /** The pods of the last list during the clean-up, including pods deleted since, and the monotonic time of that list. */
  lastList: { readonly atMs: number; readonly pods: readonly LivePod[] } | undefined;
  /** The value of `isProgressReported` in the snapshot of the last pass. */
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
  /** Reports of the log read that the record does not contain yet. */
  readonly read: LogsRead[];
  defect: { readonly error: unknown } | undefined;
  announced: number;
  /** Monotonic time at which this executor took the session over. */
  readonly takenAtMs: number;
  /** Number of events in the record when this executor took the session over. */
  readonly inherited: number;
};

/** Pauses between the retries of a session's failed passes. */
export const RETRY = { firstMs: 200, maxMs: 10_000 };
/** Maximum interval of reads of the record and its pods, in case a hint was lost. */
export const RESYNC_MS = 10_000;

export function makeSessionRun(held: HeldSession): SessionRun {
  const { record, oursAtMs } = held;
  return {
    ...held,
    stale: false,
    isWriteUnknown: false,
    // The pods of the previous executor may be gone; for our own pods, the watcher gets time to publish them.
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

/** Returns whether only the ledger, the user or the clock can change the session. The process then keeps no state for it. */
export function isQueuedRun({ record, reservation, failed }: SessionRun): boolean {
  return !failed && isQueuedAtLedger(record) && reservation.state === "waiting";
}
