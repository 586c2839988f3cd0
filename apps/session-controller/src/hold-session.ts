import type { Turns } from "@muster/backoff";
import { describeFault, faultOf } from "@muster/faults";
import { phaseOf, planBroken } from "./domain/plan-session.ts";
import { isFinished, podName, type SessionRecord } from "./domain/session.ts";
import type { ReservationSeen, SessionPolicy } from "./domain/snapshot.ts";
import { transitionRecord, transitionTakeOver, type Outcome } from "./domain/transition-record.ts";
import type { ExecutorDeps, Stored } from "./executor.ts";

/** A session that this executor has, as far as it knows. */
export type Held = {
  record: SessionRecord;
  revision: number;
  /** On the monotonic clock: the session was ours at this moment. */
  oursAtMs: number;
  /** A check of that which is under way; the steps of one pass share it. */
  checking: Promise<void> | undefined;
};

/** Thrown when the record turns out to belong to somebody else. */
export class Lost extends Error {}

/** Executors in a row that a session may end without getting any further. */
const ATTEMPTS_MAX = 5;
/** A process runs one session at a time of those that may have ended this many executors, so that its own end counts for one of them. */
const SUSPECT_ATTEMPTS = 2;
/** A suspect that has not ended its executor by then leaves its turn to the next one. */
const SUSPECT_MS_MAX = 10_000;

/**
 * Raises the epoch, so that the executor before can no longer write. Undefined: the session does not exist, or the signal came first. A session that has ended too
 * many executors is ended here. `turn` receives the turn of a suspect, which lasts until it is disposed.
 */
export async function takeOver(
  deps: ExecutorDeps,
  { name, uid }: { readonly name: string; readonly uid: string },
  turn: DisposableStack,
  signal: AbortSignal,
): Promise<Held | "unreadable" | undefined> {
  let isAlone = false;
  while (!signal.aborted) {
    const oursAtMs = deps.monotonicMs();
    const stored = await loadReadable(deps, name);
    if (stored === "unreadable") return stored;
    if (stored?.record.uid !== uid) return undefined;
    if (isFinished(stored.record)) return { ...stored, oursAtMs, checking: undefined };
    if (stored.record.attempts >= SUSPECT_ATTEMPTS && !isAlone) {
      isAlone = await takeSuspectTurn(deps.suspects, turn, signal);
      continue;
    }
    const record = takenOver(deps, stored.record);
    try {
      const revision = await deps.save(record, stored.revision);
      const { epoch, attempts } = record;
      deps.logger.info({ session: name, epoch, attempts, phase: phaseOf(record) }, "session taken over");
      return { record, revision, oursAtMs, checking: undefined };
    } catch (error) {
      if (faultOf(error)?.code !== "conflict") throw error;
    }
  }
  return undefined;
}

function takenOver({ logger, executor, now }: ExecutorDeps, record: SessionRecord): SessionRecord {
  const ours = transitionTakeOver(record, executor);
  if (record.attempts < ATTEMPTS_MAX) return ours;
  const reason = `it ended its controller ${record.attempts} times in a row`;
  logger.error({ session: record.name, reason }, "session cannot be run");
  return transitionRecord(ours, planBroken(ours, reason, now()));
}

/** False: the signal came first. */
async function takeSuspectTurn(suspects: Turns, turn: DisposableStack, signal: AbortSignal): Promise<boolean> {
  const begun = Promise.withResolvers<boolean>();
  const over = Promise.withResolvers<undefined>();
  const begin = (): Promise<undefined> => {
    begun.resolve(true);
    return over.promise;
  };
  suspects(begin, signal).catch(() => begun.resolve(false));
  const isOurs = await begun.promise;
  const end = (): void => over.resolve(undefined);
  const timer = setTimeout(end, SUSPECT_MS_MAX);
  turn.defer(() => {
    clearTimeout(timer);
    end();
  });
  return isOurs;
}

/** Notes that the session has not ended this executor. Where that cannot be written, it counts as if it had. */
export async function handBack(deps: ExecutorDeps, held: Held): Promise<void> {
  if (held.record.attempts === 0) return;
  try {
    await remember(deps, held, [{ do: "hand-back" }]);
  } catch (error) {
    deps.logger.warn({ session: held.record.name, err: error }, "the session was not handed back");
  }
}

async function loadReadable(deps: ExecutorDeps, name: string): Promise<Stored | "unreadable" | undefined> {
  try {
    return await deps.load(name);
  } catch (error) {
    if (faultOf(error)?.code !== "internal") throw error;
    deps.logger.error({ session: name, err: error }, "the session cannot be read");
    return "unreadable";
  }
}

/**
 * A process that was stopped for a while may have been replaced, and its machines given to somebody else, without its noticing; so it looks before it touches
 * the world. A request that was already on its way when the process stopped cannot be called back: `takeBack` and the sweep remove what it makes.
 */
export async function ensureOurs(deps: ExecutorDeps, policy: SessionPolicy, held: Held): Promise<void> {
  if (deps.monotonicMs() - held.oursAtMs <= policy.trustRecordMs) return;
  held.checking ??= reload(deps, held).finally(() => {
    held.checking = undefined;
  });
  await held.checking;
}

/** Writes in a row that users' writes may precede. */
const CONFLICTS_MAX = 20;

/**
 * Writes the outcomes into the record. When a user's write came first they go onto that; when another executor's did, the session is lost. Rejects where the store
 * refuses the write or does not answer; whether the write happened is then unknown, and the record has to be read before the next one.
 */
export async function remember(deps: ExecutorDeps, held: Held, outcomes: readonly Outcome[]): Promise<void> {
  for (let attempt = 1; outcomes.length > 0; attempt += 1) {
    const next = outcomes.reduce(transitionRecord, held.record);
    const oursAtMs = deps.monotonicMs();
    try {
      held.revision = await deps.save(next, held.revision);
      held.record = next;
      held.oursAtMs = oursAtMs;
      return;
    } catch (error) {
      if (faultOf(error)?.code !== "conflict" || attempt >= CONFLICTS_MAX) throw error;
      await reload(deps, held);
    }
  }
}

/** Reads the record again; throws Lost when it is not ours any more. */
export async function reload(deps: ExecutorDeps, held: Held): Promise<void> {
  const oursAtMs = deps.monotonicMs();
  const stored = await deps.load(held.record.name);
  if (!isStillOurs(held, stored)) throw new Lost();
  held.record = stored.record;
  held.revision = stored.revision;
  held.oursAtMs = oursAtMs;
}

function isStillOurs({ record }: Held, stored: Stored | undefined): stored is Stored {
  return stored !== undefined && stored.record.uid === record.uid && stored.record.epoch === record.epoch;
}

/**
 * What an executor still made though the session was no longer its own: a session that runs on owns it, because its successor finds it by its name; one that is
 * ending lists its pods after their logs are kept, which are lost with them. Of a session that is further, or gone, nobody may look for it any more, so it is
 * removed here. Should this fail, the sweep removes it.
 */
export async function takeBack(
  deps: ExecutorDeps,
  { record }: Held,
  made: { readonly outcomes: readonly Outcome[]; readonly reservation: ReservationSeen },
): Promise<void> {
  const { outcomes, reservation } = made;
  try {
    const stored = await deps.load(record.name);
    const now = stored?.record.uid === record.uid ? stored.record : undefined;
    if (now !== undefined && now.verdict === undefined) return;
    const listedLater = now !== undefined && !now.logsCollected && !isFinished(now);
    for (const outcome of outcomes) {
      if (outcome.do !== "pod-created" || listedLater) continue;
      const pod = podName(record.name, outcome.component);
      deps.logger.warn({ session: record.name, pod, uid: outcome.uid }, "removing a pod that was made too late");
      await deps.act(record, { do: "delete-pod", pod, uid: outcome.uid, force: false, because: "session-over" });
    }
    if (now?.released === false || !("id" in reservation)) return;
    const { id: reservationId } = reservation;
    await deps.act({ ...record, reservationId }, { do: "release", reservationId, because: "pods-gone" });
  } catch (error) {
    const fault = faultOf(error);
    if (fault === undefined) throw error;
    deps.logger.warn({ session: record.name, reason: describeFault(fault) }, "left for the sweep to remove");
  }
}
