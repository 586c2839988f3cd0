import { setTimeout as sleep } from "node:timers/promises";
import { takeTurns } from "@muster/backoff";
import { assertNever, describeFault, faultOf } from "@muster/faults";
import type { Logger } from "@muster/service";
import {
  leftAlone,
  nextOverdueMs,
  planOverdue,
  planSweep,
  type OwnedPod,
  type OwnedReplacement,
  type OwnedReservation,
  type SessionDigest,
  type SweepPolicy,
  type SweepSnapshot,
  type SweepStep,
} from "./domain/plan-sweep.ts";
import { prefixOfReplacement, replacementPrefix } from "./domain/replacement-owner.ts";
import { isFinished, type SessionRecord } from "./domain/session.ts";
import { transitionRecord, type Outcome } from "./domain/transition-record.ts";
import type { Stored } from "./executor.ts";

/** What a sweep needs from outside. Everything asynchronous rejects with FaultError. */
export type SweepDeps = {
  readonly now: () => number;
  readonly logger: Logger;
  /** Resolves after the time, at the signal, or as soon as a pod is seen whose session is over; true then. */
  readonly rest: (ms: number, signal: AbortSignal) => Promise<boolean>;
  readonly listPods: () => Promise<readonly OwnedPod[]>;
  readonly listReservations: () => Promise<readonly OwnedReservation[]>;
  readonly listReplacements: () => Promise<readonly OwnedReplacement[]>;
  readonly sessions: () => readonly SessionDigest[];
  /** Grows whenever what `sessions` returns has changed. */
  readonly changes: () => number;
  readonly load: (name: string) => Promise<Stored | undefined>;
  readonly save: (record: SessionRecord, revision: number) => Promise<number>;
  readonly run: (session: string, uid: string) => Promise<void>;
  readonly deletePod: (pod: string, uid: string, force: boolean) => Promise<void>;
  /** Gives back exactly this reservation; when it is gone, or another stands under that name, nothing happens. */
  readonly release: (session: string, reservationId: string) => Promise<void>;
  /** The same for a machine in place of a lost one. */
  readonly releaseReplacement: (ownerId: string, reservationId: string) => Promise<void>;
  /** Tells the ledger how many sessions may hold machines; nothing happens when it knows. */
  readonly limitSessions: () => Promise<void>;
  /** Takes the installation of each pod of others that the sweep has met. */
  readonly tellLeftAlone: (installations: readonly string[]) => void;
  /** Deletes the kept logs and then the record. */
  readonly forget: (stored: Stored) => Promise<void>;
};

/** However much there is to see, this much time is between two sweeps. */
const REST_LEAST_MS = 500;
const CLOCK_LOOK_MS = 1000;
const SESSIONS_AT_ONCE = 32;

/** Sweeps until the signal. A sweep that fails, wholly or in part, is made good by the next one. */
export async function sweepForever(
  deps: SweepDeps,
  policy: SweepPolicy & { readonly everyMs: number },
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    await sweep(deps, policy, signal);
    await restUntilNext(deps, policy.everyMs, signal);
  }
}

/** In between, only the clock is looked at: sessions whose time in the queue ends meanwhile are not kept waiting for the next sweep. */
async function restUntilNext(deps: SweepDeps, everyMs: number, signal: AbortSignal): Promise<void> {
  let lookedMs = deps.now();
  const endMs = lookedMs + everyMs;
  const leastMs = Math.min(REST_LEAST_MS, everyMs);
  await sleep(leastMs, undefined, { signal }).catch(() => undefined);
  // Walked through only when something has changed or a time is over: there may be many.
  let seen = { changes: -1, dueMs: Number.NEGATIVE_INFINITY };
  for (let rung = false; !rung && lookedMs < endMs && !signal.aborted;) {
    rung = await deps.rest(Math.min(CLOCK_LOOK_MS, endMs - lookedMs), signal);
    const nowMs = deps.now();
    const changes = deps.changes();
    if (changes !== seen.changes || nowMs >= seen.dueMs) {
      const sessions = deps.sessions();
      seen = { changes, dueMs: nextOverdueMs(sessions, nowMs) };
      await executeAll(deps, planOverdue(sessions, lookedMs, nowMs), [], signal);
    }
    lookedMs = nowMs;
  }
}

/** One look at everything, and the repair of what is left over. */
export async function sweep(deps: SweepDeps, policy: SweepPolicy, signal: AbortSignal): Promise<void> {
  // Said again and again, because the ledger may have been away, or heard another limit, when this replica started.
  await reporting(deps, "the ledger was not told how many sessions may run", deps.limitSessions);
  const seen = await observe(deps);
  // Listed last: what was listed before belongs to a session that is listed, or to none.
  const snapshot = { nowMs: deps.now(), sessions: deps.sessions(), seen };
  if (seen !== undefined) deps.tellLeftAlone(leftAlone(snapshot));
  const steps = planSweep(snapshot, policy);
  // What is left over holds machines; sessions to run may be very many, and most of them run already.
  await executeAll(
    deps,
    steps.filter((step) => step.do !== "run"),
    seen?.pods ?? [],
    signal,
  );
  await executeAll(
    deps,
    steps.filter((step) => step.do === "run"),
    [],
    signal,
  );
}

/** The steps of one session in their order, those of several sessions concurrently. */
async function executeAll(
  deps: SweepDeps,
  steps: readonly SweepStep[],
  pods: readonly OwnedPod[],
  signal: AbortSignal,
): Promise<void> {
  const bySession = [...Map.groupBy(steps, ({ session }) => session).values()];
  const turns = takeTurns(SESSIONS_AT_ONCE);
  const sweepSession = async (own: readonly SweepStep[]): Promise<void> => {
    for (const step of own) {
      if (signal.aborted) return;
      await reporting(deps, "sweep step failed", () => execute(deps, step, pods));
    }
  };
  await Promise.all(bySession.map((own) => turns(() => sweepSession(own))));
}

async function observe(deps: SweepDeps): Promise<SweepSnapshot["seen"]> {
  try {
    const pods = await deps.listPods();
    return {
      pods,
      reservations: await deps.listReservations(),
      replacements: await deps.listReplacements(),
    };
  } catch (error) {
    const fault = faultOf(error);
    if (fault === undefined) throw error;
    deps.logger.warn({ reason: describeFault(fault) }, "sweep sees no pods or no reservations");
    return undefined;
  }
}

/** The list of sessions may lag behind, so whatever takes something away looks at the session itself first. */
async function execute(deps: SweepDeps, step: SweepStep, pods: readonly OwnedPod[]): Promise<void> {
  if (step.do === "run") {
    await deps.run(step.session, step.uid);
    return;
  }
  const stored = await deps.load(step.session);
  deps.logger.info({ step }, "sweep step");
  switch (step.do) {
    case "expire":
      if (stored !== undefined && isOver(stored, step.uid)) await deps.forget(stored);
      return;
    case "confirm-pods-gone":
      await note(deps, stored, step.uid, { do: "confirm-pods-gone", because: "none-listed" });
      return;
    case "release":
      // The session has come meanwhile, is another one, or is not over: the next sweep sees it as it is.
      if (stored !== undefined && (step.uid === undefined || !isOver(stored, step.uid))) return;
      if (step.reservationId !== "") await deps.release(step.session, step.reservationId);
      if (step.uid !== undefined) await note(deps, stored, step.uid, { do: "released" });
      return;
    case "release-replacement":
      if (stored === undefined || !mayOwn(stored.record, step.ownerId))
        await deps.releaseReplacement(step.ownerId, step.reservationId);
      return;
    case "delete-pod": {
      const ownerUid = pods.find(({ uid }) => uid === step.uid)?.ownerUid;
      const wanted = stored !== undefined && !isFinished(stored.record) && stored.record.uid === ownerUid;
      if (!wanted) await deps.deletePod(step.pod, step.uid, step.force);
      return;
    }
    default:
      assertNever(step);
  }
}

async function note(deps: SweepDeps, stored: Stored | undefined, uid: string, outcome: Outcome): Promise<void> {
  if (stored === undefined || !isOver(stored, uid)) return;
  await deps.save(transitionRecord(stored.record, outcome), stored.revision);
}

/** Whether the session needs its replacements, this one among them. */
function mayOwn(record: SessionRecord, ownerId: string): boolean {
  return !record.released && replacementPrefix(record) === prefixOfReplacement(ownerId);
}

function isOver({ record }: Stored, uid: string): boolean {
  return record.uid === uid && isFinished(record);
}

async function reporting(deps: SweepDeps, message: string, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    const fault = faultOf(error);
    if (fault === undefined) throw error;
    deps.logger.warn({ reason: describeFault(fault) }, message);
  }
}
