import { randomUUID } from "node:crypto";
import { computeBackoffMs, pause, MAX_TIMER_MS } from "@muster/backoff";
import { FaultError, findFault } from "@muster/faults";
import type { NatsConnection } from "@nats-io/nats-core";
import type { Bucket } from "./bucket.ts";
import { openClaims, type SessionLock } from "./claim-locks.ts";
import { jsonText } from "./codec.ts";
import { RETRY } from "./connection-events.ts";
import { decideExpiry, buildSessionKey, type SessionFacts, type SessionRecord } from "./decide-lock-claim.ts";
import { holdRecord, type RecordHold, type HeldRecord } from "./hold-record.ts";
import { makeReasonFilter } from "./reason-filter.ts";
import { observeClaims, type ClaimsObserver } from "./observe-claims.ts";
import { openLocks } from "./open-locks.ts";
import { buildSessionsView, type SessionsView } from "./sessions-view.ts";
import { countLock } from "./telemetry.ts";

export type Session = {
  /** Id of this session, never reused. */
  readonly id: string;
  /** Aborted as soon as the session and all its locks may be lost, and when the caller stops. */
  readonly signal: AbortSignal;
  /** Aborted only when the session may be lost. Work that completes an effect after the caller has stopped uses this signal. */
  readonly lost: AbortSignal;
  /**
   * Whether the session is live at this moment, by our monotonic clock; aborts the signal if not. A frozen process may run other work before the timer that
   * aborts the signal: check this before each effect that the token of a lock does not fence.
   */
  readonly isHeld: () => boolean;
  /**
   * Takes a lock until it is unlocked or the session ends; returns the existing lock if the session has it. Undefined if a live session has it or was faster,
   * or this session is ending. Retries while the server does not answer, so that no unknown lock remains. Rejects with FaultError invalid_request (key) and
   * limit_exceeded (size of the bucket).
   */
  lock(key: string): Promise<SessionLock | undefined>;
  /** Releases the lock if this session still has it. Retries while the server does not answer; an unreleased lock becomes free once the session is lost. */
  unlock(lock: SessionLock): Promise<void>;
  /** The present view; the same object until something changes. This session is in it. */
  view(): SessionsView;
  /**
   * Called while this session lives, when any session appears or ends and when any lock changes: the time to check for free locks. Returns the function that
   * stops.
   */
  onChange(listener: () => void): () => void;
};

type SessionState = "waiting" | "live" | "lost";

type SessionsOptions = {
  /** Name of the bucket, which only these sessions and their locks use. */
  readonly bucket: string;
  /** Name of this process, for operators. */
  readonly holder: string;
  /** The session and its locks become free this many milliseconds after its last renewal. It is renewed at every third of that time. */
  readonly ttlMs: number;
  /** The facts that others see of the session: small, and JSON. */
  readonly about: SessionFacts;
  readonly signal: AbortSignal;
  /** Called on each change; `cause` is the reason why the session is lost. */
  readonly onChange?: (state: SessionState, cause?: unknown) => void;
  /** Called once per reason while no session can be created. The attempt is retried. */
  readonly onProblem?: (error: unknown) => void;
  /** Monotonic milliseconds. */
  readonly now?: () => number;
};

/** Enough for about 300,000 locks. */
const CLAIMS_BYTES = 64 * 1024 * 1024;
/**
 * Delay before the next session after a lost or failed one. It grows with each short-lived session, because each makes other processes take over its work and
 * release it again.
 */
const NEXT_SESSION = { firstMs: 500, maxMs: 30_000 };
/** A session that lived this long is not short-lived. */
const SETTLED_MS = 60_000;

/**
 * Runs `work` with a live session until the signal, and with a new session after a loss. Locks cost no writes while their session lives. A silent session loses
 * all of them, and the other sessions are notified. A stop releases the locks and the session immediately. The next session starts only after the work of the
 * last one has returned. Work that returns by itself ends the session. Rejects with the error of `work`, unless its signal was aborted, and with FaultError
 * limit_exceeded (`about` too large, bucket full) or unavailable (connection closed for good).
 */
export async function withSessions(
  connection: NatsConnection,
  options: SessionsOptions,
  work: (session: Session) => Promise<void>,
): Promise<void> {
  const { bucket: name, ttlMs, signal } = options;
  const bucket = await openLocks(connection, { name, codec: jsonText, maxBytes: CLAIMS_BYTES, ttlMs, signal });
  if (bucket !== undefined) await runSessions(bucket, options, work);
}

/** Does the same as withSessions on an open bucket. */
export async function runSessions(
  bucket: Bucket<unknown>,
  options: SessionsOptions,
  work: (session: Session) => Promise<void>,
): Promise<void> {
  const { ttlMs, signal, now = () => performance.now() } = options;
  await using observer = observeClaims(bucket, ttlMs, now);
  await using _expiry = deleteSilentSessions(bucket, observer, now);
  const context = { bucket, observer, options, now };
  const report = (state: SessionState, cause?: unknown): void => {
    countLock(bucket.name, state);
    options.onChange?.(state, cause);
  };
  for (let shortLived = 0; ;) {
    report("waiting");
    const started = await startSession(context);
    if (started === undefined) return;
    report("live");
    const onLost = (cause: unknown): void => report("lost", cause);
    const hold = { record: heldSession(context, started), onLost, signal, now };
    const { heldMs } = await holdRecord(hold, (held) => runSession(context, started.id, held, work));
    if (signal.aborted) return;
    shortLived = heldMs < SETTLED_MS ? shortLived + 1 : 0;
    await pause(computeBackoffMs(shortLived, NEXT_SESSION), signal);
  }
}

type SessionContext = {
  readonly bucket: Bucket<unknown>;
  readonly observer: ClaimsObserver;
  readonly options: SessionsOptions;
  readonly now: () => number;
};

type StartedSession = { readonly id: string; readonly revision: number; readonly sentAtMs: number };

/** Undefined if the signal is aborted first. An attempt whose answer was lost leaves a session that is never renewed, and is deleted. */
async function startSession({ bucket, observer, options, now }: SessionContext): Promise<StartedSession | undefined> {
  const { signal, onProblem } = options;
  const isNewReason = makeReasonFilter();
  for (let failures = 0; !signal.aborted;) {
    const failure = observer.failure();
    if (failure !== undefined) throw failure.error;
    if (observer.current() === undefined) {
      await observer.changed(signal);
      continue;
    }
    const id = randomUUID();
    const sentAtMs = now();
    try {
      return { id, revision: await bucket.create(buildSessionKey(id), buildRecord(options)), sentAtMs };
    } catch (error) {
      if (findFault(error)?.code !== "unavailable") throw error;
      if (isNewReason(error)) onProblem?.(error);
      failures += 1;
      await pause(computeBackoffMs(failures, NEXT_SESSION), signal);
    }
  }
  return undefined;
}

function buildRecord({ holder, ttlMs, about }: SessionsOptions): SessionRecord {
  return { holder, ttlMs, about };
}

function heldSession({ bucket, observer, options }: SessionContext, session: StartedSession): HeldRecord {
  const key = buildSessionKey(session.id);
  return {
    ...session,
    ttlMs: options.ttlMs,
    renew: (revision) => bucket.update(key, buildRecord(options), revision),
    // Only this process creates a session with this id, so the session is ours while its key exists.
    find: async () => (await bucket.get(key))?.revision,
    giveUp: (revision) => bucket.delete(key, revision),
    onTaken: (lose) => {
      let seen = false;
      const look = (): void => {
        // A session that cannot observe the others has no use.
        const failure = observer.failure();
        if (failure !== undefined) lose(failure.error);
        const wasSeen = seen;
        seen = isSeen(observer, session.id);
        // A session that the watch misses may still exist: only the bucket knows.
        if (wasSeen && !seen)
          observer.isGone(session.id).then(
            (gone) => gone && lose(new FaultError({ code: "not_found", kind: "session", id: session.id })),
            () => undefined,
          );
      };
      look();
      return observer.onChange(look);
    },
  };
}

function isSeen(observer: ClaimsObserver, session: string): boolean {
  return observer.current()?.sessions.has(session) === true;
}

async function runSession(
  { bucket, observer, options }: SessionContext,
  id: string,
  held: RecordHold,
  work: (session: Session) => Promise<void>,
): Promise<void> {
  while (!held.signal.aborted && !isSeen(observer, id)) await observer.changed(held.signal);
  let working = true;
  const mine: RecordHold = { signal: held.signal, lost: held.lost, isHeld: () => working && held.isHeld() };
  const claims = openClaims({ bucket, observer, session: id, holder: options.holder, held: mine });
  const stops = new Set<() => void>();
  let view: { readonly changes: number; readonly seen: SessionsView } | undefined;
  try {
    await work({
      id,
      ...mine,
      lock: claims.lock,
      unlock: claims.unlock,
      view: () => {
        const changes = observer.changes();
        if (view?.changes !== changes) view = { changes, seen: buildSessionsView(observer.current()) };
        return view.seen;
      },
      onChange: (listener) => {
        const stop = observer.onChange(listener);
        stops.add(stop);
        return stop;
      },
    });
  } finally {
    working = false;
    for (const stop of stops) stop();
    if (held.isHeld()) await claims.unlockAll();
  }
}

/** Deletes the keys of silent sessions, which frees their locks. Every follower of the bucket tries; the first one succeeds. */
function deleteSilentSessions(bucket: Bucket<unknown>, observer: ClaimsObserver, now: () => number): AsyncDisposable {
  const stop = new AbortController();
  const deleteSilent = async (): Promise<void> => {
    for (let failures = 0; !stop.signal.aborted && observer.failure() === undefined;) {
      let waitMs = MAX_TIMER_MS;
      let failed = false;
      for (const [id, session] of observer.current()?.sessions ?? []) {
        const decision = decideExpiry(session, now());
        if (decision.kind === "wait") {
          waitMs = Math.min(waitMs, decision.forMs);
          continue;
        }
        const deleted = await bucket.delete(buildSessionKey(id), decision.revision).then(
          () => true,
          () => false,
        );
        // The session was renewed, another follower deleted it, which the watch reports, or the server is unreachable.
        if (!deleted) failed = true;
      }
      failures = failed ? failures + 1 : 0;
      await observer.changed(stop.signal, failed ? Math.min(waitMs, computeBackoffMs(failures, RETRY)) : waitMs);
    }
  };
  const deleting = deleteSilent();
  return {
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await deleting;
    },
  };
}
