import type { SessionFacts, ObservedClaims } from "./decide-lock-claim.ts";

type LiveSession = {
  readonly id: string;
  readonly holder: string;
  /** Undefined if the record of the session is unreadable. */
  readonly about: SessionFacts | undefined;
};

type SeenLock = {
  readonly key: string;
  /** The last session that took the lock; undefined if its record is unreadable. */
  readonly session: string | undefined;
  /** Fencing token of the last holder. */
  readonly token: number;
  /** No observed live session has the lock. An attempt to take it verifies that. */
  readonly free: boolean;
};

/** All live sessions and their locks, by id and by key. A lock that was never taken, or was released, is missing. */
export type SessionsView = {
  readonly sessions: ReadonlyMap<string, LiveSession>;
  readonly locks: ReadonlyMap<string, SeenLock>;
};

export function buildSessionsView(observed: ObservedClaims | undefined): SessionsView {
  const sessions = new Map<string, LiveSession>();
  const locks = new Map<string, SeenLock>();
  for (const [id, { holder, about }] of observed?.sessions ?? []) sessions.set(id, { id, holder, about });
  for (const [key, { session, revision: token }] of observed?.locks ?? [])
    locks.set(key, { key, session, token, free: session === undefined || !sessions.has(session) });
  return { sessions, locks };
}
