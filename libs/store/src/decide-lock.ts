/** The record under the lock's key. */
export type LockRecord = {
  /** The holder, for people; empty after a release. */
  readonly holder: string;
  /** One call of `lead`: a restarted process of the same name is another session. */
  readonly session: string;
  /** The holder's promise: it stops when it could not renew for this long. */
  readonly ttlMs: number;
};

/** The lock as we see it. */
export type ObservedLock = {
  /** undefined: the key does not exist. */
  readonly record: LockRecord | undefined;
  readonly revision: number;
  /** When we first saw this revision, by our own monotonic clock; no other clock is used. */
  readonly seenAtMs: number;
};

type LockDecision =
  | { readonly kind: "create"; readonly because: "absent" }
  | { readonly kind: "take"; readonly revision: number; readonly because: "given-up" | "ours" | "silent" }
  | { readonly kind: "wait"; readonly forMs: number; readonly because: "held" };

/**
 * Decides whether we may take the lock. One that is held is free for others once its holder was silent for its whole time, counted from when we saw its last
 * sign of life: that is later than when it was sent, from which the holder counts, so the holder has stopped by then. "ours" is a record whose answer was
 * lost.
 */
export function decideLock(observed: ObservedLock, session: string, nowMs: number): LockDecision {
  const { record, revision } = observed;
  if (record === undefined) return { kind: "create", because: "absent" };
  if (record.holder === "") return { kind: "take", revision, because: "given-up" };
  if (record.session === session) return { kind: "take", revision, because: "ours" };
  const forMs = observed.seenAtMs + record.ttlMs - nowMs;
  return forMs <= 0 ? { kind: "take", revision, because: "silent" } : { kind: "wait", forMs, because: "held" };
}
