import type { About, ObservedClaims } from "./decide-claim.ts";

export type LiveSession = {
  readonly id: string;
  readonly holder: string;
  /** undefined: nobody understands what the session says of itself. */
  readonly about: About | undefined;
};

export type SeenLock = {
  readonly key: string;
  /** Who took it last; undefined when nobody understands who. */
  readonly session: string | undefined;
  /** Fencing token of who took it last. */
  readonly token: number;
  /** Nobody live is seen to have it. Whoever takes it finds out whether that is so. */
  readonly free: boolean;
};

/** All that live and what they have, by id and by key. A lock that nobody ever took, or that was given up, is not there. */
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
