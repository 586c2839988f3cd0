/** What stands in the bucket under the lock's key. */
export type LockRecord = {
  /** Who has it, for people; empty when it was given up. */
  readonly holder: string;
  /** One call of `lead`: a process that was started anew under the same name is somebody else. */
  readonly session: string;
  /** The holder's promise: it stops when it could not renew for this long. */
  readonly ttlMs: number;
};

/** The lock as we see it. */
export type ObservedLock = {
  /** undefined: nothing is there. */
  readonly record: LockRecord | undefined;
  readonly revision: number;
  /** When we first saw this revision, on our own monotonic clock; nobody else's clock is asked. */
  readonly seenAtMs: number;
};

export type LockDecision =
  | { readonly do: "create"; readonly because: "absent" }
  | { readonly do: "take"; readonly revision: number; readonly because: "given-up" | "ours" | "silent" }
  | { readonly do: "wait"; readonly forMs: number; readonly because: "held" };

/**
 * May we take the lock? One that is held is free for others once its holder was silent for its whole time, counted from when we saw its last sign of life: that
 * is later than when it was sent, from which the holder counts, so the holder has stopped by then. "ours" is a record that we wrote without hearing the answer.
 */
export function decideLock(observed: ObservedLock, session: string, nowMs: number): LockDecision {
  const { record, revision } = observed;
  if (record === undefined) return { do: "create", because: "absent" };
  if (record.holder === "") return { do: "take", revision, because: "given-up" };
  if (record.session === session) return { do: "take", revision, because: "ours" };
  const forMs = observed.seenAtMs + record.ttlMs - nowMs;
  return forMs <= 0 ? { do: "take", revision, because: "silent" } : { do: "wait", forMs, because: "held" };
}
