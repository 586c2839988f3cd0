/** The facts that a session publishes about itself. */
export type SessionFacts = Readonly<Record<string, unknown>>;

/** The record at the key of a session. */
export type SessionRecord = {
  /** Name of the holder, for operators. */
  readonly holder: string;
  /** The session stops if it could not renew its record for this many milliseconds. */
  readonly ttlMs: number;
  /** Undefined if the record is unreadable. */
  readonly about: SessionFacts | undefined;
};

/** The record at the key of a lock. It is written once, and belongs to the session while the key of that session exists. */
export type LockClaimRecord = { readonly holder: string; readonly session: string };

/** A session as this process observed it. */
export type ObservedSession = SessionRecord & {
  readonly revision: number;
  /** When this process first observed this revision, by its monotonic clock; no other clock is used. */
  readonly seenAtMs: number;
};

/** A lock as this process observed it. */
export type ObservedClaim = {
  /** Undefined if the record is unreadable; then no session protects it. */
  readonly session: string | undefined;
  /** The revision of the write that took the lock. */
  readonly revision: number;
};

/** The observed sessions and locks of a bucket. Ended sessions are missing; their locks remain. */
export type ObservedClaims = {
  readonly sessions: ReadonlyMap<string, ObservedSession>;
  readonly locks: ReadonlyMap<string, ObservedClaim>;
};

type ExpiryDecision =
  | { readonly kind: "expire"; readonly revision: number; readonly because: "silent" }
  | { readonly kind: "wait"; readonly forMs: number; readonly because: "alive" };

/**
 * Decides whether a session has expired: it was silent for its whole time to live, counted from when we observed its last renewal. The session counts from the
 * earlier time at which it sent that renewal, so it has already stopped. Its key is deleted at this revision: an earlier renewal wins, a later one is refused.
 */
export function decideExpiry(session: ObservedSession, nowMs: number): ExpiryDecision {
  const forMs = session.seenAtMs + session.ttlMs - nowMs;
  if (forMs <= 0) return { kind: "expire", revision: session.revision, because: "silent" };
  return { kind: "wait", forMs, because: "alive" };
}

type ClaimDecision =
  | { readonly kind: "create"; readonly because: "absent" }
  | { readonly kind: "take"; readonly revision: number; readonly because: "ours" | "unreadable" }
  /** Requires a read that confirms that the session no longer exists: the watch may report a lock before its newly created session. */
  | { readonly kind: "take-from"; readonly session: string; readonly revision: number; readonly because: "not-seen" }
  | { readonly kind: "leave"; readonly because: "held" };

/** Decides whether this session may take the lock. "ours" is a record whose answer was lost, or that this session has just released. */
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

export function buildSessionKey(session: string): string {
  return SESSION + session;
}

export function buildLockKey(lock: string): string {
  return LOCK + lock;
}

/** The kind and name of a key of the bucket; undefined for a foreign key. */
export function parseKeyName(
  key: string,
):
  | { readonly kind: "session"; readonly session: string }
  | { readonly kind: "lock"; readonly lock: string }
  | undefined {
  if (key.startsWith(LOCK)) return { kind: "lock", lock: key.slice(LOCK.length) };
  const session = key.slice(SESSION.length);
  return key.startsWith(SESSION) && SESSION_ID.test(session) ? { kind: "session", session } : undefined;
}

/** Reads a record. An unreadable one counts as an unknown session with our own time to live. */
export function readSession(value: unknown, ttlMs: number): SessionRecord {
  const { holder, ttlMs: theirs, about } = readFields(value);
  const readable = typeof holder === "string" && typeof theirs === "number" && theirs > 0 && isSessionFacts(about);
  return readable ? { holder, ttlMs: theirs, about } : { holder: "unknown", ttlMs, about: undefined };
}

/** The session that the record of a lock names. */
export function readClaim(value: unknown): string | undefined {
  const { session } = readFields(value);
  return typeof session === "string" && SESSION_ID.test(session) ? session : undefined;
}

function readFields(value: unknown): SessionFacts {
  return isSessionFacts(value) ? value : {};
}

function isSessionFacts(value: unknown): value is SessionFacts {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
