import { randomUUID } from "node:crypto";
import type { NatsConnection } from "@nats-io/nats-core";
import { FaultError, findFault } from "@muster/faults";
import { buckets } from "@muster/proto";
import { computeBackoffMs, pause } from "@muster/backoff";
import { RETRY } from "./connection-events.ts";
import type { Bucket } from "./bucket.ts";
import { jsonText, type Codec } from "./codec.ts";
import { decideLock, type LockRecord } from "./decide-lock.ts";
import { holdRecord, type HeldRecord } from "./hold-record.ts";
import { makeReasonFilter } from "./reason-filter.ts";
import { observeLock, type LockObserver } from "./observe-lock.ts";
import { openLocks } from "./open-locks.ts";
import { countLock } from "./telemetry.ts";

export type Leadership = {
  /** Fencing token: larger for each later leader of the same lock. */
  readonly token: number;
  /** Aborted as soon as the lead may be lost, and when the caller stops. */
  readonly signal: AbortSignal;
  /** Aborted only when the lead may be lost: the lock was not renewed in time, or another process took it. */
  readonly lost: AbortSignal;
  /**
   * Whether we lead at this moment, by our monotonic clock; aborts the signal if not. A frozen process may run other work before the timer that aborts the
   * signal: check this before each effect that the token does not fence.
   */
  readonly isHeld: () => boolean;
};

type LeadOptions = {
  readonly lock: string;
  /** Name of this process, unique among its replicas. */
  readonly holder: string;
  /** The lock becomes free this many milliseconds after its last renewal. It is renewed at every third of that time. */
  readonly ttlMs: number;
  readonly signal: AbortSignal;
  /** Called on each change; `cause` is the reason why the lead is lost. */
  readonly onChange?: (state: "waiting" | "leading" | "lost", cause?: unknown) => void;
  /** Called once per reason while the free lock cannot be taken. The attempt is retried. */
  readonly onProblem?: (error: unknown) => void;
  /** Monotonic milliseconds. */
  readonly now?: () => number;
};

const LOCKS_BYTES = 16 * 1024 * 1024;

/**
 * Runs `work` each time this process becomes the leader, until the signal. Releases the lock immediately when stopped, so that another replica need not wait
 * for its time to live. If `work` returns while it leads, releases the lock and competes again. Rejects with the error of `work`, unless its signal was
 * aborted, and with FaultError unavailable once the connection is closed for good.
 */
export async function runWhileLeader(
  connection: NatsConnection,
  options: LeadOptions,
  work: (leadership: Leadership) => Promise<void>,
): Promise<void> {
  const { lock, holder, ttlMs, signal, now = () => performance.now() } = options;
  const codec = lockCodec(ttlMs);
  const bucket = await openLocks(connection, { name: buckets.locks, codec, maxBytes: LOCKS_BYTES, ttlMs, signal });
  if (bucket === undefined) return;
  const record = { holder, session: randomUUID(), ttlMs };
  await using observer = observeLock(bucket, lock, now);
  const { onProblem = () => undefined } = options;
  const context = { bucket, lock, record, observer, signal, now, onProblem };
  const report = (state: "waiting" | "leading" | "lost", cause?: unknown): void => {
    countLock(lock, state);
    options.onChange?.(state, cause);
  };
  let shortLeads = 0;
  for (;;) {
    report("waiting");
    const acquired = await acquireLock(context);
    if (acquired === undefined) return;
    report("leading");
    const onLost = (cause: unknown): void => report("lost", cause);
    const hold = { record: heldLock(context, acquired), onLost, signal, now };
    const { heldMs } = await holdRecord(hold, (held) => work({ token: acquired.revision, ...held }));
    if (signal.aborted) return;
    shortLeads = heldMs > ttlMs ? 0 : shortLeads + 1;
    if (shortLeads > 1) await pause(computeBackoffMs(shortLeads + 1, RETRY), signal);
  }
}

type LockContext = {
  readonly bucket: Bucket<LockRecord>;
  readonly lock: string;
  /** The record that we write while we hold the lock. */
  readonly record: LockRecord;
  readonly observer: LockObserver;
  readonly signal: AbortSignal;
  readonly now: () => number;
  readonly onProblem: (error: unknown) => void;
};

type AcquiredLock = {
  readonly revision: number;
  /** Time before the acquiring write was sent. */
  readonly sentAtMs: number;
};

/** Waits until the lock is acquired; returns undefined if the signal is aborted first. */
async function acquireLock(context: LockContext): Promise<AcquiredLock | undefined> {
  const { bucket, lock, record, observer, signal, now, onProblem } = context;
  const isNewReason = makeReasonFilter();
  for (let failures = 0; !signal.aborted;) {
    const failure = observer.failure();
    if (failure !== undefined) throw failure.error;
    const observed = observer.current();
    if (observed === undefined) {
      await observer.changed(signal);
      continue;
    }
    const decision = decideLock(observed, record.session, now());
    if (decision.kind === "wait") {
      await observer.changed(signal, decision.forMs);
      continue;
    }
    const sentAtMs = now();
    try {
      const revision =
        decision.kind === "create"
          ? await bucket.create(lock, record)
          : await bucket.update(lock, record, decision.revision);
      return { revision, sentAtMs };
    } catch (error) {
      const code = findFault(error)?.code;
      const isRace = code === "conflict" || code === "already_exists";
      if (!isRace && code !== "unavailable" && code !== "limit_exceeded") throw error;
      // Another process was faster, the answer was lost, or the bucket is full: a read shows which.
      const refreshed = await observer.refresh().then(
        () => isRace,
        () => false,
      );
      if (refreshed) continue;
      if (isNewReason(error) && !isRace) onProblem(error);
      await pause(computeBackoffMs(failures + 1, RETRY), signal);
      failures += 1;
    }
  }
  return undefined;
}

function heldLock({ bucket, lock, record, observer }: LockContext, acquired: AcquiredLock): HeldRecord {
  return {
    ...acquired,
    ttlMs: record.ttlMs,
    renew: (revision) => bucket.update(lock, record, revision),
    find: async () => {
      const entry = await bucket.get(lock);
      return entry?.value.session === record.session ? entry.revision : undefined;
    },
    giveUp: (revision) => bucket.update(lock, { ...record, holder: "" }, revision),
    onTaken: (lose, revision) =>
      observer.onChange(() => {
        const seen = observer.current();
        if (seen === undefined || seen.revision <= revision() || seen.record?.session === record.session) return;
        const [expectedRevision, actualRevision] = [revision(), seen.revision];
        lose(new FaultError({ code: "conflict", id: lock, expectedRevision, actualRevision }));
      }),
  };
}

/** Decodes an unreadable record as held by an unknown process, with our own time to live. */
function lockCodec(ttlMs: number): Codec<LockRecord> {
  return {
    encode: jsonText.encode,
    decode: (bytes) => {
      const value = jsonText.decode(bytes);
      return isLockRecord(value) ? value : { holder: "unknown", session: "", ttlMs };
    },
  };
}

function isLockRecord(value: unknown): value is LockRecord {
  if (typeof value !== "object" || value === null) return false;
  const { holder, session, ttlMs }: { holder?: unknown; session?: unknown; ttlMs?: unknown } = value;
  return typeof holder === "string" && typeof session === "string" && typeof ttlMs === "number" && ttlMs > 0;
}
