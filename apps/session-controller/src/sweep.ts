import { pause, takeTurns } from "@muster/backoff";
import { runInPass, runPeriodically, type PassSpan } from "@muster/controller";
import { assertNever, describeFault, findFault } from "@muster/faults";
import { logNotRemoved, sweepOwners } from "@muster/ledger-client";
import { ROOT_CONTEXT } from "@opentelemetry/api";
import {
  attributeObject,
  planRecords,
  decideStanding,
  type OwnedObject,
  type OwnedPod,
  type RecordStep,
  type SessionDigest,
  type SweepPolicy,
  type SweepSnapshot,
} from "./domain/plan-sweep.ts";
import { getReplacementPrefix, buildReplacementPrefix } from "./domain/replacement-owner.ts";
import { isFinished, type SessionRecord } from "./domain/session.ts";
import { transitionRecord, type SessionOutcome } from "./domain/transition-record.ts";
import type { SessionDeps, StoredSession } from "./session-deps.ts";

/** The dependencies of a sweep. Asynchronous functions reject with FaultError. */
export type SweepDeps = Pick<SessionDeps, "now" | "logger" | "load" | "save" | "wake"> & {
  /** Resolves after the time or at the signal; resolves to true as soon as a pod of a finished session is observed. */
  readonly rest: (ms: number, signal: AbortSignal) => Promise<boolean>;
  /** Lists pods, reservations and replacement machines. */
  readonly listObjects: () => Promise<readonly OwnedObject[]>;
  /** Every stored session. */
  readonly digests: () => readonly SessionDigest[];
  readonly deletePod: (
    pod: Pick<OwnedPod, "namespace" | "pod" | "uid">,
    options: { readonly force: boolean },
  ) => Promise<void>;
  /** Releases exactly this reservation; a missing or replaced one is no error. */
  readonly release: (session: string, reservationId: string) => Promise<unknown>;
  /** Releases exactly this replacement machine; a missing or replaced one is no error. */
  readonly releaseReplacement: (ownerId: string, reservationId: string) => Promise<unknown>;
  /** Sets the ledger's limit of sessions with machines, unless it is set already. */
  readonly limitSessions: () => Promise<void>;
  /** Receives the installation of each foreign pod that the sweep has found. */
  readonly reportForeign: (installations: readonly string[]) => void;
  /** Deletes the stored logs and then the record. */
  readonly forget: (stored: StoredSession) => Promise<void>;
};

/** Minimum pause between two sweeps. */
const MIN_PAUSE_MS = 500;
const MAX_CONCURRENT_SESSIONS = 32;
/** A sweep concerns all sessions, so it belongs to no session's trace. */
const SPAN: PassSpan = { name: "sweep sessions", parent: ROOT_CONTEXT, attributes: {} };

/** Sweeps until the signal. The next sweep compensates for a failed one. */
export async function sweepForever(
  deps: SweepDeps,
  policy: SweepPolicy & { readonly everyMs: number },
  signal: AbortSignal,
): Promise<void> {
  const minPauseMs = Math.min(MIN_PAUSE_MS, policy.everyMs);
  await runPeriodically({
    name: "session-sweep",
    work: () => sweepOnce(deps, policy, signal),
    everyMs: policy.everyMs,
    onError: (error, failures, level) => deps.logger[level]({ err: error, failures }, "a sweep failed, and is retried"),
    rest: async (ms) => {
      await pause(minPauseMs, signal);
      if (!signal.aborted) await deps.rest(ms - minPauseMs, signal);
    },
    stop: signal,
  });
}

/** Runs one sweep: lists all objects, finishes sessions without an executor, and removes leftovers. */
export async function sweepOnce(deps: SweepDeps, policy: SweepPolicy, signal: AbortSignal): Promise<void> {
  // Set the limit in every sweep: the ledger may have been unreachable, or had another limit, when this replica started.
  await reporting(deps, "cannot set the ledger's limit of sessions", deps.limitSessions);
  await reporting(deps, "the sweep cannot list pods or reservations", async () => {
    const listed = await deps.listObjects();
    // List sessions last, so that each object belongs to a listed session or to none.
    const sessions = deps.digests();
    const snapshot = { nowMs: deps.now(), sessions, objects: attributeObject(listed, sessions) };
    const steps = planRecords(snapshot);
    const sweepAll = async (): Promise<void> => {
      await executeAll(deps, steps, signal);
      await reporting(deps, "the sweep has not removed all leftovers; the next one retries", () =>
        sweepObjects(deps, snapshot, policy, signal),
      );
    };
    await (steps.length === 0 ? sweepAll() : runInPass("session-controller", SPAN, steps, sweepAll));
  });
}

/** Executes the steps of one session in order, and the steps of different sessions concurrently. */
async function executeAll(deps: SweepDeps, steps: readonly RecordStep[], signal: AbortSignal): Promise<void> {
  const bySession = [...Map.groupBy(steps, ({ session }) => session).values()];
  const turns = takeTurns(MAX_CONCURRENT_SESSIONS);
  const sweepSession = async (own: readonly RecordStep[]): Promise<void> => {
    for (const step of own) {
      if (signal.aborted) return;
      await reporting(deps, "sweep step failed", () => execute(deps, step));
    }
  };
  await Promise.all(bySession.map((own) => turns(() => sweepSession(own))));
}

/** Executes one step. Each step except `run` reads the session first, because the list of sessions may lag. */
async function execute(deps: SweepDeps, step: RecordStep): Promise<void> {
  if (step.kind === "run") {
    deps.wake(step.session);
    return;
  }
  const stored = await deps.load(step.session);
  deps.logger.info({ step }, "sweep step");
  if (stored === undefined || !isOver(stored, step.uid)) return;
  switch (step.kind) {
    case "expire":
      return deps.forget(stored);
    case "confirm-pods-gone":
      return note(deps, stored, { kind: "confirm-pods-gone", because: "none-listed" });
    case "release":
      if (step.reservationId !== "") await deps.release(step.session, step.reservationId);
      return note(deps, stored, { kind: "released" });
    default:
      assertNever(step);
  }
}

async function sweepObjects(
  deps: SweepDeps,
  snapshot: SweepSnapshot,
  policy: SweepPolicy,
  signal: AbortSignal,
): Promise<void> {
  await sweepOwners<OwnedObject>({
    observe: () => Promise.resolve({ objects: snapshot.objects, standingOf: decideStanding(snapshot, policy) }),
    leftSince: new Map(),
    // `decideStanding` requires a minimum age of the leftovers of an unknown session. Leftovers of a known session are removed immediately.
    graceMs: undefined,
    nowMs: deps.now,
    remove: async (step) => {
      if (signal.aborted) return { ...step, kind: "suspect" };
      deps.logger.info({ step }, "sweep step");
      await remove(deps, step.object);
      return step;
    },
    report: { leftAlone: deps.reportForeign, notRemoved: logNotRemoved<OwnedObject>(deps.logger, "session") },
  });
}

/** Reads the session first, because the list of sessions may lag. */
async function remove(deps: SweepDeps, object: OwnedObject): Promise<void> {
  const record = (await deps.load(object.session))?.record;
  switch (object.kind) {
    case "pod": {
      const isWanted = record !== undefined && !isFinished(record) && record.uid === object.ownerUid;
      if (!isWanted) await deps.deletePod(object, { force: object.deleting });
      return;
    }
    case "reservation":
      if (record === undefined || (isFinished(record) && record.released))
        await deps.release(object.session, object.uid);
      return;
    case "replacement":
      if (record === undefined || !mayOwn(record, object.ownerId))
        await deps.releaseReplacement(object.ownerId, object.uid);
      return;
    default:
      assertNever(object);
  }
}

async function note(deps: SweepDeps, stored: StoredSession, outcome: SessionOutcome): Promise<void> {
  await deps.save(transitionRecord(stored.record, outcome), stored.revision);
}

/** Returns whether the session needs this replacement. */
function mayOwn(record: SessionRecord, ownerId: string): boolean {
  return !record.released && buildReplacementPrefix(record) === getReplacementPrefix(ownerId);
}

function isOver({ record }: StoredSession, uid: string): boolean {
  return record.uid === uid && isFinished(record);
}

async function reporting(deps: SweepDeps, message: string, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    const fault = findFault(error);
    if (fault === undefined) throw error;
    deps.logger.warn({ reason: describeFault(fault) }, message);
  }
}
