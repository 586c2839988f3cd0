import { makeBell } from "@muster/backoff";

/** A caller that waits for a change of a stored session. */
export type SessionFollower = Disposable & {
  /** Resolves once a revision above `knownRevision` was reported, after the time, or at the signal. */
  wait(options: { readonly ms: number; readonly knownRevision: number; readonly signal: AbortSignal }): Promise<void>;
};

/** Passes changes of stored sessions to the waiting callers of this process, by the name of the session. */
export type SessionFollowers = {
  follow(session: string): SessionFollower;
  changed(session: string, revision: number): void;
};

export function makeFollowers(): SessionFollowers {
  const followers = new Map<string, Set<(revision: number) => void>>();
  return {
    changed: (session, revision) => {
      for (const report of followers.get(session) ?? []) report(revision);
    },
    follow: (session) => {
      const bell = makeBell();
      let newest = 0;
      const report = (revision: number): void => {
        newest = Math.max(newest, revision);
        bell.ring();
      };
      const all = followers.get(session) ?? new Set();
      followers.set(session, all.add(report));
      return {
        wait: async ({ ms, knownRevision, signal }) => {
          const endMs = performance.now() + ms;
          while (newest <= knownRevision && !signal.aborted && performance.now() < endMs)
            await bell.wait(endMs - performance.now(), signal);
        },
        [Symbol.dispose]: () => {
          all.delete(report);
          if (all.size === 0 && followers.get(session) === all) followers.delete(session);
        },
      };
    },
  };
}
