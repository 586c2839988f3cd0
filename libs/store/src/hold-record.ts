import { FaultError, findFault } from "@muster/faults";
import { pause } from "@muster/backoff";

/** A record in a bucket that this process holds while it renews it. */
export type HeldRecord = {
  /** The revision with which this process acquired it. */
  readonly revision: number;
  /** Time before the acquiring write was sent. */
  readonly sentAtMs: number;
  /** The record expires this many milliseconds after its last renewal. It is renewed at every third of that time. */
  readonly ttlMs: number;
  /** Replaces this revision. */
  readonly renew: (revision: number) => Promise<number>;
  /** Returns the revision at which this process holds it. */
  readonly find: () => Promise<number | undefined>;
  /** Releases the record if it has this revision. */
  readonly giveUp: (revision: number) => Promise<unknown>;
  /** Calls `lose` with the reason once another owner has taken it since this revision. Returns the function that stops. */
  readonly onTaken: (lose: (cause: unknown) => void, revision: () => number) => () => void;
};

type HoldContext = {
  readonly record: HeldRecord;
  /**
   * Called when the record is lost, except during release. The cause is the error of the last renewal, the reason why another owner took it, or
   * deadline_exceeded if this process did not renew it in time.
   */
  readonly onLost: (cause: unknown) => void;
  readonly signal: AbortSignal;
  readonly now: () => number;
};

export type RecordHold = {
  /** Aborted as soon as the record may be lost, and when the caller stops. */
  readonly signal: AbortSignal;
  /** Aborted only when the record may be lost. Work that completes an effect after the caller has stopped uses this signal. */
  readonly lost: AbortSignal;
  /** Whether the record is held at this moment, by the monotonic clock; aborts the signal if not. */
  readonly isHeld: () => boolean;
};

/** Fraction of the time to live until the next renewal, by the result of the previous one. */
const NEXT_RENEWAL = { renewed: 1 / 3, unknown: 1 / 10, behind: 0, taken: 0 } as const;

/**
 * Runs the work while renewing the record, and releases it afterwards unless another owner has it. Aborts the signal of the work immediately when another owner
 * has taken the record. Otherwise aborts it once the time to live has passed since the last successful renewal was sent.
 */
export async function holdRecord(
  context: HoldContext,
  work: (held: RecordHold) => Promise<void>,
): Promise<{ readonly heldMs: number }> {
  const { record, signal, now } = context;
  const lost = new AbortController();
  const done = new AbortController();
  let { revision } = record;
  let deadlineMs = record.sentAtMs + record.ttlMs;

  let failure: { readonly error: unknown } | undefined;

  const loss = { isTaken: false };
  const lose = (cause: unknown): void => {
    if (lost.signal.aborted || done.signal.aborted) return;
    lost.abort();
    if (!signal.aborted) context.onLost(cause);
  };
  const expire = (): void => lose(failure === undefined ? notRenewed(record.ttlMs) : failure.error);
  const checkDeadline = (): void => {
    const leftMs = deadlineMs - now();
    if (leftMs <= 0) expire();
    else timer = setTimeout(checkDeadline, leftMs);
  };
  const isHeld = (): boolean => {
    if (now() >= deadlineMs) expire();
    return !lost.signal.aborted && !done.signal.aborted;
  };
  let timer: NodeJS.Timeout | undefined;
  checkDeadline();
  const loseToAnother = (cause: unknown): void => {
    loss.isTaken = true;
    lose(cause);
  };
  const stopObserving = record.onTaken(loseToAnother, () => revision);

  const over = AbortSignal.any([lost.signal, done.signal]);
  const renew = async (): Promise<void> => {
    let waitMs = record.ttlMs * NEXT_RENEWAL.renewed;
    for (;;) {
      await pause(waitMs, over);
      // A process that was frozen may resume here before the timer fires.
      if (!isHeld()) return;
      const sentAtMs = now();
      const renewed = await renewOnce(record, revision);
      if (renewed.because === "taken") loseToAnother(renewed.error);
      if (renewed.because === "unknown") failure = renewed;
      if (renewed.because === "renewed") {
        deadlineMs = sentAtMs + record.ttlMs;
        failure = undefined;
      }
      if (renewed.because !== "unknown") revision = renewed.revision;
      waitMs = record.ttlMs * NEXT_RENEWAL[renewed.because];
    }
  };
  const renewing = renew();
  const startedAtMs = now();
  try {
    // A frozen process may receive the answer of its write after the record has expired. Work that only awaits the abort would then never end.
    if (isHeld() && !signal.aborted) {
      await work({ signal: AbortSignal.any([lost.signal, signal]), lost: lost.signal, isHeld });
    }
  } catch (error) {
    if (!(lost.signal.aborted || signal.aborted) || !isStopError(error)) throw error;
  } finally {
    done.abort();
    await renewing;
    clearTimeout(timer);
    stopObserving();
    // A record that only expired still names this process: without the release, the next owner waits for the time to live.
    if (!loss.isTaken) await release(record, revision);
  }
  return { heldMs: now() - startedAtMs };
}

type Renewal =
  | { readonly because: "renewed" | "behind"; readonly revision: number }
  | { readonly because: "taken"; readonly revision: number; readonly error: unknown }
  | { readonly because: "unknown"; readonly error: unknown };

/**
 * `behind`: an earlier renewal succeeded but its answer was lost. The next renewal can follow, but this one does not extend the time for which we hold the
 * record.
 */
async function renewOnce(record: HeldRecord, revision: number): Promise<Renewal> {
  let conflict: unknown;
  try {
    return { because: "renewed", revision: await record.renew(revision) };
  } catch (error) {
    if (findFault(error)?.code !== "conflict") return { because: "unknown", error };
    conflict = error;
  }
  try {
    const found = await record.find();
    return found === undefined
      ? { because: "taken", revision, error: conflict }
      : { because: "behind", revision: found };
  } catch (error) {
    return { because: "unknown", error };
  }
}

function notRenewed(ttlMs: number): FaultError {
  return new FaultError({ code: "deadline_exceeded", operation: "the renewal", timeoutMs: ttlMs });
}

/** Releases the record, which other processes observe immediately. If the release fails, they wait for the time to live. */
async function release(record: HeldRecord, revision: number): Promise<void> {
  try {
    await record.giveUp(revision);
  } catch (error) {
    if (findFault(error)?.code !== "conflict") return;
    const found = await record.find().catch(() => undefined);
    if (found !== undefined) await record.giveUp(found).catch(() => undefined);
  }
}

/** Whether the work threw this error because it was stopped. */
function isStopError(error: unknown): boolean {
  const code = findFault(error)?.code;
  if (code === "unavailable" || code === "cancelled" || code === "conflict") return true;
  return error instanceof Error && error.name === "AbortError";
}
