/** The record at the key of the lock. */
export type LockRecord = {
  /** Name of the holder, for operators; empty after a release. */
  readonly holder: string;
  /** Id of one call of `runWhileLeader`: a restarted process of the same name has another id. */
  readonly session: string;
  /** The holder stops if it could not renew its record for this many milliseconds. */
  readonly ttlMs: number;
};

/** The lock as this process observed it. */
export type ObservedLock = {
  /** Undefined if the key does not exist. */
  readonly record: LockRecord | undefined;
  readonly revision: number;
  /** When this process first observed this revision, by its monotonic clock; no other clock is used. */
  readonly seenAtMs: number;
};

type LockDecision =
  | { readonly kind: "create"; readonly because: "absent" }
  | { readonly kind: "take"; readonly revision: number; readonly because: "given-up" | "ours" | "silent" }
  | { readonly kind: "wait"; readonly forMs: number; readonly because: "held" };

/**
 * Decides whether we may take the lock. A held lock is free once its holder was silent for its whole time to live, counted from when we observed its last
 * renewal. The holder counts from the earlier time at which it sent that renewal, so it has already stopped. "ours" is a record whose answer was lost.
 */
export function decideLock(observed: ObservedLock, session: string, nowMs: number): LockDecision {
  const { record, revision } = observed;
  if (record === undefined) return { kind: "create", because: "absent" };
  if (record.holder === "") return { kind: "take", revision, because: "given-up" };
  if (record.session === session) return { kind: "take", revision, because: "ours" };
  const forMs = observed.seenAtMs + record.ttlMs - nowMs;
  return forMs <= 0 ? { kind: "take", revision, because: "silent" } : { kind: "wait", forMs, because: "held" };
}
