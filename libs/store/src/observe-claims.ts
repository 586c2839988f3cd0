import type { Bucket } from "./bucket.ts";
import type { Change } from "./watch.ts";
import {
  parseKeyName,
  readClaim,
  readSession,
  buildSessionKey,
  type ObservedClaim,
  type ObservedClaims,
  type ObservedSession,
} from "./decide-lock-claim.ts";
import { openListeners } from "./listeners.ts";

/** Follows all sessions and locks of a bucket through one watch. */
export type ClaimsObserver = AsyncDisposable & {
  /** Undefined until the watch has caught up for the first time. */
  current(): ObservedClaims | undefined;
  /** A counter that grows with every reported change. */
  changes(): number;
  /** Called when a session appears or dies, when a lock changes, and when the watch ends; not when a session is renewed. Returns the function that stops. */
  onChange(listener: () => void): () => void;
  /** Resolves at the next change that `onChange` reports, after the time, or when the signal is aborted. */
  changed(signal: AbortSignal, withinMs?: number): Promise<void>;
  /** Reads whether the session has ended, which is final: the id of a session is never reused. */
  isGone(session: string): Promise<boolean>;
  /** The reason why the watch has ended; undefined while it runs. */
  failure(): { readonly error: unknown } | undefined;
};

/** Maximum remembered ended sessions. A forgotten one costs a read. */
const MAX_GONE = 1000;

export function observeClaims(bucket: Bucket<unknown>, ttlMs: number, now: () => number): ClaimsObserver {
  const stop = new AbortController();
  const listeners = openListeners();
  const sessions = new Map<string, ObservedSession>();
  const locks = new Map<string, ObservedClaim>();
  let synced = false;
  let changes = 0;
  let failure: { readonly error: unknown } | undefined;
  const notify = (): void => {
    changes += 1;
    listeners.notify();
  };
  /** Applies a change; returns whether listeners need to know. */
  const see = (change: Exclude<Change<unknown>, { kind: "synced" }>): boolean => {
    const { key, revision } = change.kind === "put" ? change.entry : change;
    const name = parseKeyName(key);
    if (name === undefined) return false;
    if (name.kind === "lock") {
      if (change.kind === "delete") return locks.delete(name.lock);
      locks.set(name.lock, { session: readClaim(change.entry.value), revision });
      return true;
    }
    if (change.kind === "delete") return sessions.delete(name.session);
    const isNew = !sessions.has(name.session);
    sessions.set(name.session, { ...readSession(change.entry.value, ttlMs), revision, seenAtMs: now() });
    return isNew;
  };
  const follow = async (): Promise<void> => {
    for await (const change of bucket.watch({ signal: stop.signal })) {
      if (change.kind === "synced") synced = true;
      else if (!see(change)) continue;
      notify();
    }
  };
  const following = follow().catch((error: unknown) => {
    failure = { error };
    notify();
  });
  const current: ObservedClaims = { sessions, locks };
  return {
    current: () => (synced ? current : undefined),
    changes: () => changes,
    onChange: listeners.onChange,
    changed: (signal, withinMs) => (failure === undefined ? listeners.changed(signal, withinMs) : Promise.resolve()),
    isGone: rememberGone(async (session) => (await bucket.get(buildSessionKey(session))) === undefined),
    failure: () => failure,
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await following;
    },
  };
}

/** Concurrent callers share one read, and an ended session is never read again. */
function rememberGone(ask: (session: string) => Promise<boolean>): (session: string) => Promise<boolean> {
  const answers = new Map<string, Promise<boolean>>();
  return (session) => {
    const known = answers.get(session);
    if (known !== undefined) return known;
    const [oldest] = answers.keys();
    if (oldest !== undefined && answers.size >= MAX_GONE) answers.delete(oldest);
    const answer = ask(session);
    answers.set(session, answer);
    const forget = (): boolean => answers.delete(session);
    answer.then((gone) => gone || forget(), forget);
    return answer;
  };
}
