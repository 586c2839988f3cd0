import { retryOnConflict } from "@muster/backoff";
import { describeFault, findFault, throwFault } from "@muster/faults";
import { NOTE_DELAY_MS, isRediscovered } from "./domain/defer-notes.ts";
import { getRecordPhase, planBrokenSession } from "./domain/plan-session.ts";
import { isFinished, getPodName, type SessionRecord } from "./domain/session.ts";
import type { ReservationSeen } from "./domain/snapshot.ts";
import { transitionRecord, transitionTakeOver, type SessionOutcome } from "./domain/transition-record.ts";
import type { HeldSession } from "./run.ts";
import type { SessionDeps, StoredSession } from "./session-deps.ts";

/** Thrown if the record belongs to another executor. */
export class SessionLostError extends Error {}

/** Maximum consecutive executors that a session may crash without progress. */
const MAX_ATTEMPTS = 5;
/** Number of crashed executors from which a process runs a suspect session alone, so that its own crash counts only for that session. */
const SUSPECT_ATTEMPTS = 2;

/**
 * Makes our token the epoch, so that the previous executor can no longer write; a session that is already ours is unchanged. Ends a session that has crashed
 * too many executors. Returns "suspect" if the session may have crashed its executors and `mayTry` refused, "lost" if a later leader owns the session.
 */
export async function takeOverSession(
  deps: SessionDeps,
  name: string,
  mayTry: () => boolean,
): Promise<HeldSession | "unreadable" | "gone" | "lost" | "suspect"> {
  return retryOnConflict<HeldSession | "unreadable" | "gone" | "lost" | "suspect">(`session ${name}`, async () => {
    const oursAtMs = deps.monotonicMs();
    const stored = await loadReadable(deps, name);
    if (stored === "unreadable") return { unchanged: stored };
    if (stored === undefined) return { unchanged: "gone" };
    const held: HeldSession = { ...stored, oursAtMs, unwritten: [] };
    if (isFinished(stored.record)) return { unchanged: held };
    if (stored.record.epoch > deps.token) return { unchanged: "lost" };
    if (stored.record.attempts >= SUSPECT_ATTEMPTS && !mayTry()) return { unchanged: "suspect" };
    if (stored.record.epoch === deps.token) return { unchanged: held };
    const record = takenOver(deps, stored.record);
    return {
      write: async () => {
        const revision = await deps.save(record, stored.revision);
        const { epoch, attempts } = record;
        deps.logger.info({ session: name, epoch, attempts, phase: getRecordPhase(record) }, "session taken over");
        return { ...held, record, revision };
      },
    };
  });
}

function takenOver(deps: SessionDeps, record: SessionRecord): SessionRecord {
  const { logger, now } = deps;
  const ours = transitionTakeOver(record, deps);
  if (record.attempts < MAX_ATTEMPTS) return ours;
  const reason = `it ended its controller ${record.attempts} times in a row`;
  logger.error({ session: record.name, reason }, "session cannot be run");
  return transitionRecord(ours, planBrokenSession(ours, reason, now()));
}

async function loadReadable(deps: SessionDeps, name: string): Promise<StoredSession | "unreadable" | undefined> {
  try {
    return await deps.load(name);
  } catch (error) {
    if (findFault(error)?.code !== "internal") throw error;
    deps.logger.error({ session: name, err: error }, "cannot read the session");
    return "unreadable";
  }
}

/**
 * Throws unless this process leads: after a suspension another leader may run its sessions, and other owners may hold their machines. A request in flight
 * during the suspension cannot be recalled: `removeLateObjects` and the sweep remove its effects.
 */
export function ensureLead({ isHeld }: Pick<SessionDeps, "isHeld">): void {
  if (!isHeld()) throwFault({ code: "unavailable", dependency: "the lead of the sessions", retryAfterMs: 0 });
}

/**
 * Writes the outcomes into the record, or keeps them for the next write if another executor would observe them. A conflict with a user's write applies them to
 * the newer record; a conflict with another executor loses the session. Rejects if the store refuses the write or does not answer. Whether the write happened
 * is then unknown, and the record must be read before the next write.
 */
export async function rememberRecord(
  deps: SessionDeps,
  held: HeldSession,
  outcomes: readonly SessionOutcome[],
): Promise<void> {
  const isYoung = deps.monotonicMs() - held.oursAtMs < NOTE_DELAY_MS;
  // Without the lead, write immediately: the write detects whether the session is lost.
  if (isYoung && deps.isHeld() && outcomes.every((outcome) => isRediscovered(held.record, outcome))) {
    held.record = outcomes.reduce(transitionRecord, held.record);
    held.unwritten = [...held.unwritten, ...outcomes];
    return;
  }
  if (outcomes.length === 0 && held.unwritten.length === 0) return;
  await retryOnConflict(`session ${held.record.name}`, async (number) => {
    if (number > 1) await reloadRecord(deps, held);
    const next = outcomes.reduce(transitionRecord, held.record);
    const oursAtMs = deps.monotonicMs();
    return {
      write: async () => {
        held.revision = await deps.save(next, held.revision);
        held.record = next;
        held.unwritten = [];
        held.oursAtMs = oursAtMs;
      },
    };
  });
}

/** Reads the record again; throws SessionLostError if another executor owns the session. */
export async function reloadRecord(deps: SessionDeps, held: HeldSession): Promise<void> {
  const oursAtMs = deps.monotonicMs();
  const stored = await deps.load(held.record.name);
  if (!isHeldByUs(held, stored)) throw new SessionLostError();
  held.record = held.unwritten.reduce(transitionRecord, stored.record);
  held.revision = stored.revision;
  held.oursAtMs = oursAtMs;
}

function isHeldByUs({ record }: HeldSession, stored: StoredSession | undefined): stored is StoredSession {
  return stored !== undefined && stored.record.uid === record.uid && stored.record.epoch === record.epoch;
}

/**
 * Removes the objects that an executor created after it lost the session. A running session keeps them, because its next executor finds them by name. An ending
 * session lists its pods after their logs are stored. For a later or missing session they are removed here, because no other code may find them. If that fails,
 * the sweep removes them.
 */
export async function removeLateObjects(
  deps: SessionDeps,
  { record, unwritten, reservation }: HeldSession & { readonly reservation: ReservationSeen },
): Promise<void> {
  try {
    const stored = await deps.load(record.name);
    const now = stored?.record.uid === record.uid ? stored.record : undefined;
    if (now !== undefined && now.verdict === undefined) return;
    const listedLater = now !== undefined && !now.logsCollected && !isFinished(now);
    for (const outcome of unwritten) {
      if (outcome.kind !== "pod-created" || listedLater) continue;
      const pod = getPodName(record, outcome.component);
      deps.logger.warn({ session: record.name, pod, uid: outcome.uid }, "removing a pod that was created too late");
      await deps.act(record, { kind: "delete-pod", pod, uid: outcome.uid, force: false, because: "session-over" });
    }
    if (now?.released === false || !("id" in reservation)) return;
    const { id: reservationId } = reservation;
    await deps.act({ ...record, reservationId }, { kind: "release", reservationId, because: "pods-gone" });
  } catch (error) {
    const fault = findFault(error);
    if (fault === undefined) throw error;
    deps.logger.warn({ session: record.name, reason: describeFault(fault) }, "left for the sweep to remove");
  }
}
