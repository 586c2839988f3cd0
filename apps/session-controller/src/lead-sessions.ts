import { runController, runParts, workQueue } from "@muster/controller";
import type { Logger } from "@muster/service";
import type { Leadership } from "@muster/store";
import { needsPass, type SessionDigest, type SweepPolicy } from "./domain/plan-sweep.ts";
import { RETRY } from "./run.ts";
import { makeSessions, type HintReceivers, type SessionsPolicy } from "./sessions.ts";
import type { StepResult, SessionDeps } from "./session-deps.ts";
import { sweepForever, type SweepDeps } from "./sweep.ts";

/** The dependencies of one leadership. */
type Own = "wake" | "token" | "isHeld" | "standDown" | "act";

/** The external dependencies of one leadership. */
export type LeadDeps = {
  readonly sessions: Omit<SessionDeps, Own> & {
    /** `act` of `SessionDeps`, which also receives `isHeld`. */
    readonly act: (...of: [...Parameters<SessionDeps["act"]>, isHeld: SessionDeps["isHeld"]]) => Promise<StepResult>;
  };
  readonly sweep: Omit<SweepDeps, keyof SessionDeps>;
  /** Called with the receiver of hints when this process starts to lead, and with undefined when it stops. */
  readonly leading: (led: HintReceivers | undefined) => void;
};

type LeadPolicy = SessionsPolicy & {
  readonly workers: number;
  readonly sweep: SweepPolicy & { readonly everyMs: number };
};

/** Retry limits of passes: a pause per session, and a rate for all of them together. */
const LIMITS = { ...RETRY, perSecond: 1000, burst: 10_000 };
/** Maximum age of events that a new leader publishes again: the previous leader may have recorded the end of a session without publishing it. */
const ANNOUNCE_AGAIN_MS = 600_000;

/** Runs all sessions and sweeps while this process leads, until the signal. Sessions in progress are handed back at the end. */
export async function leadSessions(
  deps: LeadDeps,
  policy: LeadPolicy,
  {
    logger,
    leadership,
    stop,
  }: { readonly logger: Logger; readonly leadership: Leadership; readonly stop: AbortSignal },
): Promise<void> {
  const { now } = deps.sessions;
  const { digests } = deps.sweep;
  const { token } = leadership;
  const stoodDown = new AbortController();
  const lead = {
    signal: AbortSignal.any([leadership.signal, stoodDown.signal]),
    lost: AbortSignal.any([leadership.lost, stoodDown.signal]),
    isHeld: () => leadership.isHeld() && !stoodDown.signal.aborted,
  };
  const queue = workQueue({ limits: LIMITS });
  const wake = (name: string): void => queue.add(name);
  const sessionDeps: SessionDeps = {
    ...deps.sessions,
    wake,
    token,
    isHeld: lead.isHeld,
    standDown: () => stoodDown.abort(),
    act: (record, step) => deps.sessions.act(record, step, lead.isHeld),
  };
  const sessions = makeSessions(sessionDeps, policy);
  deps.leading({ token, queue, sessions });
  for (const digest of digests()) {
    const { name, finishedAtMs, queuedUntilMs } = digest;
    if (needsPass(digest) || finishedAtMs > now() - ANNOUNCE_AGAIN_MS) queue.add(name);
    else if (finishedAtMs === 0) queue.addAfter(name, queuedUntilMs - now());
  }
  const isLeft = (digest: SessionDigest): boolean =>
    !sessions.has(digest.name) && (needsPass(digest) || (digest.finishedAtMs === 0 && digest.queuedUntilMs <= now()));
  try {
    await runParts(lead, [
      (own) =>
        runController({
          name: "session",
          queue,
          reconcile: sessions.reconcile,
          workers: policy.workers,
          resync: { keys: () => digests().flatMap((digest) => (isLeft(digest) ? [digest.name] : [])) },
          lead: own,
          stop,
          onError: (error, session, failures, level) =>
            logger[level]({ session, failures, err: error }, "a pass failed; it is retried"),
        }),
      ({ signal }) => sweepForever({ ...sessionDeps, ...deps.sweep }, policy.sweep, signal),
    ]);
  } finally {
    deps.leading(undefined);
    await sessions.stop(stop);
  }
}
