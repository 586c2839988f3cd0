/** The facts that a session publishes about itself. */
export type About = Readonly<Record<string, unknown>>;

/** The record under a session's key. */
export type SessionRecord = {
  /** The holder, for people. */
  readonly holder: string;
  /** The session's promise: it stops when it could not renew for this long. */
  readonly ttlMs: number;
  /** undefined: the record is unreadable. */
  readonly about: About | undefined;
};

/** The record under a lock's key. It is written once, and belongs to the session while that session's key exists. */
export type ClaimRecord = { readonly holder: string; readonly session: string };

/** A session as we see it. */
export type ObservedSession = SessionRecord & {
  readonly revision: number;
  /** When we first saw this revision, by our own monotonic clock; no other clock is used. */
  readonly seenAtMs: number;
};

/** A lock as we see it. */
export type ObservedClaim = {
  /** undefined: the record is unreadable, so that no session protects it. */
  readonly session: string | undefined;
  /** The revision of the write that took the lock. */
  readonly revision: number;
};

/** A bucket of sessions and locks as we see it. Ended sessions are missing; their locks remain. */
export type ObservedClaims = {
  readonly sessions: ReadonlyMap<string, ObservedSession>;
  readonly locks: ReadonlyMap<string, ObservedClaim>;
};

type ExpiryDecision =
  | { readonly kind: "expire"; readonly revision: number; readonly because: "silent" }
  | { readonly kind: "wait"; readonly forMs: number; readonly because: "alive" };

/**
 * Decides whether a session has expired: it has once it was silent for its whole time, counted from when we saw its last sign of life: that is later than
 * when it was sent, from which the session counts, so it has stopped by then. Its key is deleted at that very revision: a renewal that came meanwhile wins,
 * and one that comes later is refused.
 */
export function decideExpiry(session: ObservedSession, nowMs: number): ExpiryDecision {
  const forMs = session.seenAtMs + session.ttlMs - nowMs;
  if (forMs <= 0) return { kind: "expire", revision: session.revision, because: "silent" };
  return { kind: "wait", forMs, because: "alive" };
}

type ClaimDecision =
  | { readonly kind: "create"; readonly because: "absent" }
  | { readonly kind: "take"; readonly revision: number; readonly because: "ours" | "unreadable" }
  /** Taken only if the bucket confirms that the session is gone: the watch may report a lock before the session that was just made and renewed. */
  | { readonly kind: "take-from"; readonly session: string; readonly revision: number; readonly because: "not-seen" }
  | { readonly kind: "leave"; readonly because: "held" };

/** Decides whether this session may take the lock. "ours" is a record whose answer was lost, or that we have just released. */
export function decideLockClaim({ sessions, locks }: ObservedClaims, lock: string, session: string): ClaimDecision {
  const seen = locks.get(lock);
  if (seen === undefined) return { kind: "create", because: "absent" };
  const { session: holder, revision } = seen;
  if (holder === undefined) return { kind: "take", revision, because: "unreadable" };
  if (holder === session) return { kind: "take", revision, because: "ours" };
  if (sessions.has(holder)) return { kind: "leave", because: "held" };
  return { kind: "take-from", session: holder, revision, because: "not-seen" };
}

const SESSION = "session.";
const LOCK = "lock.";
const SESSION_ID = /^[-\w]+$/;

export function sessionKey(session: string): string {
  return SESSION + session;
}

export function lockKey(lock: string): string {
  return LOCK + lock;
}

/** The kind and name of a key of the bucket; undefined for a foreign key. */
export function nameOfKey(
  key: string,
):
  | { readonly kind: "session"; readonly session: string }
  | { readonly kind: "lock"; readonly lock: string }
  | undefined {
  if (key.startsWith(LOCK)) return { kind: "lock", lock: key.slice(LOCK.length) };
  const session = key.slice(SESSION.length);
  return key.startsWith(SESSION) && SESSION_ID.test(session) ? { kind: "session", session } : undefined;
}

/** An unreadable record counts as an unknown session, which gets our own time to live. */
export function readSession(value: unknown, ttlMs: number): SessionRecord {
  const { holder, ttlMs: theirs, about } = fieldsOf(value);
  const readable = typeof holder === "string" && typeof theirs === "number" && theirs > 0 && isAbout(about);
  return readable ? { holder, ttlMs: theirs, about } : { holder: "unknown", ttlMs, about: undefined };
}

/** The session that a lock's record names. */
export function readClaim(value: unknown): string | undefined {
  const { session } = fieldsOf(value);
  return typeof session === "string" && SESSION_ID.test(session) ? session : undefined;
}

function fieldsOf(value: unknown): About {
  return isAbout(value) ? value : {};
}

function isAbout(value: unknown): value is About {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
