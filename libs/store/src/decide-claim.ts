/** What a session tells all others of itself. */
export type About = Readonly<Record<string, unknown>>;

/** What stands under a session's key. */
export type SessionRecord = {
  /** Who has it, for people. */
  readonly holder: string;
  /** The session's promise: it stops when it could not renew for this long. */
  readonly ttlMs: number;
  /** undefined: nobody understands what is written there. */
  readonly about: About | undefined;
};

/** What stands under a lock's key. It is written once, and belongs to the session for as long as that one's key is there. */
export type ClaimRecord = { readonly holder: string; readonly session: string };

/** A session as we see it. */
export type ObservedSession = SessionRecord & {
  readonly revision: number;
  /** When we first saw this revision, on our own monotonic clock; nobody else's clock is asked. */
  readonly seenAtMs: number;
};

/** A lock as we see it. */
export type ObservedClaim = {
  /** undefined: nobody understands what is written there, so nobody's life protects it. */
  readonly session: string | undefined;
  /** Of the write that took the lock. */
  readonly revision: number;
};

/** A bucket of sessions and locks as we see it. Sessions that were buried are not there; their locks still are. */
export type ObservedClaims = {
  readonly sessions: ReadonlyMap<string, ObservedSession>;
  readonly locks: ReadonlyMap<string, ObservedClaim>;
};

export type BurialDecision =
  | { readonly do: "bury"; readonly revision: number; readonly because: "silent" }
  | { readonly do: "wait"; readonly forMs: number; readonly because: "alive" };

/**
 * Is the session dead? It is once it was silent for its whole time, counted from when we saw its last sign of life: that is later than when it was sent, from which
 * the session counts, so it has stopped by then. Its key is deleted at that very revision: a renewal that came meanwhile wins, and one that comes later is refused.
 */
export function decideBurial(session: ObservedSession, nowMs: number): BurialDecision {
  const forMs = session.seenAtMs + session.ttlMs - nowMs;
  if (forMs <= 0) return { do: "bury", revision: session.revision, because: "silent" };
  return { do: "wait", forMs, because: "alive" };
}

export type ClaimDecision =
  | { readonly do: "create"; readonly because: "absent" }
  | { readonly do: "take"; readonly revision: number; readonly because: "ours" | "unreadable" }
  /** To be taken if the bucket itself says that the session is gone: one that was made and renewed at once may be told after its lock. */
  | { readonly do: "take-from"; readonly session: string; readonly revision: number; readonly because: "not-seen" }
  | { readonly do: "leave"; readonly because: "held" };

/** May this session take the lock? "ours" is a record that we wrote without hearing the answer, or that we have just given up. */
export function decideClaim({ sessions, locks }: ObservedClaims, lock: string, session: string): ClaimDecision {
  const seen = locks.get(lock);
  if (seen === undefined) return { do: "create", because: "absent" };
  const { session: holder, revision } = seen;
  if (holder === undefined) return { do: "take", revision, because: "unreadable" };
  if (holder === session) return { do: "take", revision, because: "ours" };
  if (sessions.has(holder)) return { do: "leave", because: "held" };
  return { do: "take-from", session: holder, revision, because: "not-seen" };
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

/** What a key of the bucket is of; undefined for one that nobody here writes. */
export function nameOfKey(
  key: string,
): { readonly of: "session"; readonly session: string } | { readonly of: "lock"; readonly lock: string } | undefined {
  if (key.startsWith(LOCK)) return { of: "lock", lock: key.slice(LOCK.length) };
  const session = key.slice(SESSION.length);
  return key.startsWith(SESSION) && SESSION_ID.test(session) ? { of: "session", session } : undefined;
}

/** Anything that is no session's record counts as a session of somebody unknown, who is given our own time to show life. */
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
