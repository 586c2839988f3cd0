import { computeBackoffMs, pause, takeTurns } from "@muster/backoff";
import { findFault } from "@muster/faults";
import type { Bucket } from "./bucket.ts";
import { RETRY } from "./connection-events.ts";
import { decideLockClaim, buildLockKey, readClaim, type LockClaimRecord } from "./decide-lock-claim.ts";
import type { RecordHold } from "./hold-record.ts";
import type { ClaimsObserver } from "./observe-claims.ts";

export type SessionLock = {
  readonly key: string;
  /** Fencing token, the revision of the write that took the lock; each later holder has a larger one. */
  readonly token: number;
};

/** The locks of one session. */
type Claims = {
  /** Takes a lock, as `Session` states. */
  lock(key: string): Promise<SessionLock | undefined>;
  unlock(lock: SessionLock): Promise<void>;
  /** Releases all locks in one attempt; the rest become free when the session ends. */
  unlockAll(): Promise<void>;
};

type ClaimContext = {
  readonly bucket: Bucket<unknown>;
  readonly observer: ClaimsObserver;
  readonly session: string;
  readonly holder: string;
  readonly held: RecordHold;
};

/** Maximum locks taken and released concurrently: the renewal of the session waits behind no more than these. */
const MAX_IN_FLIGHT = 64;

export function openClaims(context: ClaimContext): Claims {
  const { held } = context;
  const inTurn = takeTurns(MAX_IN_FLIGHT);
  const ours = new Map<string, SessionLock>();
  /** Locks in release. Taking one waits for its release, so that the release cannot delete the new lock. */
  const leaving = new Map<string, Promise<void>>();
  const forget = ({ key, token }: SessionLock): void => {
    if (ours.get(key)?.token === token) ours.delete(key);
  };
  const unlock = async (lock: SessionLock): Promise<void> => {
    for (let failures = 0; held.isHeld(); failures += 1) {
      if ((await inTurn(() => giveUp(context, lock))) || held.signal.aborted) return;
      await pause(computeBackoffMs(failures + 1, RETRY), held.signal);
    }
  };
  return {
    lock: async (key) => {
      await leaving.get(key);
      for (let failures = 0; held.isHeld() && !held.signal.aborted; failures += 1) {
        const known = ours.get(key);
        if (known !== undefined) return known;
        try {
          const token = await inTurn(() => claim(context, key));
          // A session that ended meanwhile has no locks, so this one is already free.
          if (token === undefined || !held.isHeld()) return undefined;
          const lock = { key, token };
          ours.set(key, lock);
          return lock;
        } catch (error) {
          if (findFault(error)?.code !== "unavailable") throw error;
        }
        await pause(computeBackoffMs(failures + 1, RETRY), held.signal);
      }
      return undefined;
    },
    unlock: async (lock) => {
      forget(lock);
      const left = unlock(lock).finally(() => leaving.get(lock.key) === left && leaving.delete(lock.key));
      leaving.set(lock.key, left);
      await left;
    },
    unlockAll: async () => {
      let answered = true;
      const leave = async (lock: SessionLock): Promise<void> => {
        if (answered) answered = await giveUp(context, lock);
      };
      const left = [...ours.values()];
      ours.clear();
      await Promise.all(left.map((lock) => inTurn(() => leave(lock))));
    },
  };
}

/**
 * Makes one attempt; returns the token, or undefined if another session has the lock or was faster. The watch reports the other session's lock and its release.
 */
async function claim(context: ClaimContext, key: string): Promise<number | undefined> {
  const { bucket, observer, session, holder, held } = context;
  const observed = observer.current();
  if (observed === undefined) return undefined;
  const decision = decideLockClaim(observed, key, session);
  if (decision.kind === "leave") return undefined;
  if (decision.kind === "take-from" && !(await observer.isGone(decision.session))) return undefined;
  if (!held.isHeld()) return undefined;
  const record: LockClaimRecord = { holder, session };
  try {
    return decision.kind === "create"
      ? await bucket.create(buildLockKey(key), record)
      : await bucket.update(buildLockKey(key), record, decision.revision);
  } catch (error) {
    const code = findFault(error)?.code;
    if (code !== "conflict" && code !== "already_exists") throw error;
  }
  // This session may have written the record, although the answer was lost.
  const found = await bucket.get(buildLockKey(key));
  return found !== undefined && readClaim(found.value) === session ? found.revision : undefined;
}

/** Releases the lock; returns whether this session no longer has it: false if NATS was unavailable. */
async function giveUp({ bucket }: ClaimContext, { key, token }: SessionLock): Promise<boolean> {
  try {
    await bucket.delete(buildLockKey(key), token);
    return true;
  } catch (error) {
    const code = findFault(error)?.code;
    if (code !== "conflict" && code !== "unavailable") throw error;
    return code === "conflict";
  }
}
