import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { pauseBy, systemClock, type Clock } from "./clock.ts";
import type { KubeCalls } from "./kube-calls.ts";
import {
  buildFirst,
  buildReleased,
  buildRenewed,
  buildTaken,
  durationMs,
  holderOf,
  mark,
  type LeaseObject,
} from "./lease-record.ts";
import { unlessFault, unlessMissing } from "./unless-fault.ts";

/** What the leader has in hand. */
export type Lead = {
  /** Aborted as soon as the lead is lost or may be lost soon, and when it has ended; until the lease can be taken by another one, the difference of lease and renew deadline is left. */
  readonly signal: AbortSignal;
  /** Greater than that of every earlier leader: the lease's leaseTransitions. Whoever stores something for the leader refuses a smaller one. */
  readonly fencing: number;
  /** Whether the lead is held at this moment; right also in a process that was frozen and has just come back, before its timers have aborted the signal. */
  readonly holds: () => boolean;
};

export type LeaderElectionTiming = {
  /** Others take over when the holder was silent for so long; whole seconds. */
  readonly leaseMs: number;
  /** The leader gives up when its last successful renewal was sent so long ago; shorter than the lease. */
  readonly renewDeadlineMs: number;
  /** Between renewals, and (with up to 2.2 times of it, by chance) between attempts to become the leader. */
  readonly retryMs: number;
};

export type LeaderElectionOptions = {
  readonly calls: Pick<KubeCalls, "get" | "create" | "replace">;
  readonly lease: { readonly namespace: string; readonly name: string };
  /** The work of the leader. Ends when its signal is aborted, and when `stop` is; the lease is kept until it has ended. */
  readonly lead: (lead: Lead) => Promise<void>;
  readonly stop: AbortSignal;
  /** Of this process; default `hostname_uuid`. Two candidates with one identity would both lead. */
  readonly identity?: string;
  /** Default 15 s, 10 s and 2 s. */
  readonly timing?: Partial<LeaderElectionTiming>;
  /** Told about everything that went wrong; attempts go on. */
  readonly onError?: (error: unknown) => void;
  readonly clock?: Clock;
  /** Time of day in milliseconds, only to be shown. */
  readonly wallClock?: () => number;
  readonly random?: () => number;
};

const DEFAULT_TIMING: LeaderElectionTiming = { leaseMs: 15_000, renewDeadlineMs: 10_000, retryMs: 2000 };
/** client-go's factor: so that those who wait do not all come at once. */
const JITTER = 1.2;

/**
 * A candidate for the lease until it is stopped; leads whenever it has it. Whether another one's lease has run out is judged by the time that passed here since it was last seen to
 * change, never by the times written in it: clocks may differ, only their speed may not. After a loss it is a candidate again. Resolves when it is stopped, or when the
 * work ended by itself, and the lease is released. Rejects with what the work rejects with while it has the lead. A plain Error for timing that is not safe.
 */
export async function leaderElection(options: LeaderElectionOptions): Promise<void> {
  const timing = checkTiming({ ...DEFAULT_TIMING, ...options.timing });
  const candidate = makeCandidate(options, timing);
  const { stop, clock = systemClock, random = Math.random, onError } = options;
  while (!isAborted(stop)) {
    const term = await candidate.take(stop).catch((error: unknown) => {
      if (!stop.aborted) onError?.(error);
      return undefined;
    });
    if (term === undefined) await pauseBy(clock, timing.retryMs * (1 + JITTER * random()), stop);
    else if ((await serve(options, timing, candidate, term)) === "ended") return;
  }
}

function checkTiming(timing: LeaderElectionTiming): LeaderElectionTiming {
  const { leaseMs, renewDeadlineMs, retryMs } = timing;
  const safe = leaseMs > renewDeadlineMs && renewDeadlineMs > retryMs * JITTER && retryMs > 0 && leaseMs % 1000 === 0;
  if (!safe) {
    throw new Error(
      `a lease of ${leaseMs} ms (whole seconds) has to be longer than the renew deadline of ${renewDeadlineMs} ms, and that longer than ${JITTER} times the retry of ${retryMs} ms`,
    );
  }
  return timing;
}

/** The lease as we have written it, and when that was sent: whatever the server did with it happened later. */
type Term = { readonly lease: LeaseObject; readonly sentAtMs: number };

type Candidate = {
  /** Undefined when somebody else has it. */
  take(signal: AbortSignal): Promise<Term | undefined>;
  /** Undefined when it is somebody else's by now, or was changed. */
  renew(lease: LeaseObject, signal: AbortSignal): Promise<Term | undefined>;
  release(lease: LeaseObject): Promise<void>;
};

function makeCandidate(options: LeaderElectionOptions, timing: LeaderElectionTiming): Candidate {
  const { calls, clock = systemClock, wallClock = () => Date.now() } = options;
  const { identity = `${hostname()}_${randomUUID()}` } = options;
  const { name, namespace } = options.lease;
  const resource = { apiVersion: "coordination.k8s.io/v1", plural: "leases", namespace };
  let seen: { readonly mark: string; readonly atMs: number } | undefined;

  const wish = () => ({ identity, leaseMs: timing.leaseMs, wallMs: wallClock() });
  /** A call may take half of the time in which it has to succeed, so that there is a second one. */
  const limited = <Value>(signal: AbortSignal | undefined, call: (signal: AbortSignal) => Promise<Value>) =>
    withinTime(clock, timing.renewDeadlineMs / 2, signal, call);
  async function write(lease: LeaseObject, signal: AbortSignal): Promise<Term | undefined> {
    const sentAtMs = clock.now();
    const first = lease.metadata?.resourceVersion === undefined;
    const writing = limited(signal, (late) =>
      first ? calls.create(resource, lease, { signal: late }) : calls.replace(resource, lease, { signal: late }),
    );
    const written = await unlessFault(writing, first ? "already_exists" : "conflict");
    return written && { lease: written, sentAtMs };
  }

  return {
    take: async (signal) => {
      const reading = limited(signal, (late) => calls.get<LeaseObject>(resource, name, { signal: late }));
      const lease = await unlessMissing(reading);
      if (lease === undefined) return write(buildFirst(name, wish()), signal);
      if (seen?.mark !== mark(lease)) seen = { mark: mark(lease), atMs: clock.now() };
      const holder = holderOf(lease);
      const othersUntilMs = seen.atMs + durationMs(lease, timing.leaseMs);
      if (holder !== "" && holder !== identity && clock.now() < othersUntilMs) return undefined;
      return write(buildTaken(lease, wish()), signal);
    },
    renew: async (lease, signal) => {
      const written = await write(buildRenewed(lease, wish()), signal);
      if (written !== undefined) return written;
      // Somebody wrote to it: an annotation does not cost the lead, another holder does.
      const now = await limited(signal, (late) => calls.get<LeaseObject>(resource, name, { signal: late }));
      const ours = holderOf(now) === identity && now.spec?.leaseTransitions === lease.spec?.leaseTransitions;
      return ours ? write(buildRenewed(now, wish()), signal) : undefined;
    },
    release: async (lease) => {
      await limited(undefined, (late) => calls.replace(resource, buildReleased(lease, wallClock()), { signal: late }));
    },
  };
}

/** Lets the work be done while the lease is renewed. `lost`: be a candidate again. */
async function serve(
  options: LeaderElectionOptions,
  timing: LeaderElectionTiming,
  candidate: Candidate,
  first: Term,
): Promise<"ended" | "lost"> {
  const { stop, clock = systemClock, onError } = options;
  const lost = new AbortController();
  const done = new AbortController();
  let term = first;
  const untilMs = (): number => term.sentAtMs + timing.renewDeadlineMs;
  const holds = (): boolean => !lost.signal.aborted && clock.now() < untilMs();
  // The answer may have come too late to begin with.
  if (!holds()) return "lost";

  if (stop.aborted) {
    await candidate.release(term.lease).catch((error: unknown) => onError?.(error));
    return "ended";
  }
  const fencing = term.lease.spec?.leaseTransitions ?? 0;
  let failure: { readonly error: unknown } | undefined;
  const working = begin(options, { signal: lost.signal, fencing, holds })
    .catch((error: unknown) => (failure = { error }))
    .finally(() => done.abort());
  const over = AbortSignal.any([lost.signal, done.signal]);
  const guard = guardDeadline(clock, untilMs, over, () =>
    lost.abort(new DOMException("the lead is lost", "AbortError")),
  );

  while (!isAborted(over)) {
    await pauseBy(clock, timing.retryMs, over);
    if (isAborted(over)) break;
    try {
      // Not ended with the work: what a cut renewal has written is not known, and could not be released.
      const renewed = await candidate.renew(term.lease, lost.signal);
      if (renewed !== undefined) term = renewed;
      else lost.abort(new DOMException("another one has the lease", "AbortError"));
    } catch (error) {
      if (!isAborted(over)) onError?.(error);
    }
  }
  await working;
  guard();
  const wasLost = lost.signal.aborted;
  // Whoever still has the lead in hand must not think that it holds once others may have it.
  lost.abort(new DOMException("the lead has ended", "AbortError"));
  if (wasLost) {
    if (failure !== undefined) onError?.(failure.error);
    return "lost";
  }
  await candidate.release(term.lease).catch((error: unknown) => onError?.(error));
  if (failure !== undefined) throw failure.error;
  return "ended";
}

/** Also when the work throws before its first wait. */
async function begin({ lead }: LeaderElectionOptions, has: Lead): Promise<void> {
  await lead(has);
}

/** Calls `expired` when the deadline, which moves on meanwhile, is reached. Returns the way to end it. */
function guardDeadline(clock: Clock, untilMs: () => number, over: AbortSignal, expired: () => void): () => void {
  let forget = (): void => undefined;
  const look = (): void => {
    if (over.aborted) return;
    if (clock.now() >= untilMs()) expired();
    else forget = clock.alarm(untilMs() - clock.now(), look);
  };
  look();
  return () => forget();
}

async function withinTime<Value>(
  clock: Clock,
  ms: number,
  signal: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<Value>,
): Promise<Value> {
  const late = new AbortController();
  const forget = clock.alarm(ms, () => late.abort(new DOMException(`no answer within ${ms} ms`, "TimeoutError")));
  try {
    return await work(signal === undefined ? late.signal : AbortSignal.any([signal, late.signal]));
  } finally {
    forget();
  }
}

/** Asked after an await: the compiler believes that a signal found unaborted stays so. */
function isAborted(signal: AbortSignal): boolean {
  return signal.aborted;
}
