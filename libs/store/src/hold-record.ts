import { FaultError, faultOf } from "@muster/faults";
import { pause } from "@muster/backoff";

/** A record in a bucket that we hold while we renew it. */
export type HeldRecord = {
  /** The revision that made it ours. */
  readonly revision: number;
  /** Time before the write that made it ours was sent. */
  readonly sentAtMs: number;
  /** It is ours this long after its last renewal. Renewed every third of it. */
  readonly ttlMs: number;
  /** Replaces this revision. */
  readonly renew: (revision: number) => Promise<number>;
  /** The revision at which we hold it. */
  readonly find: () => Promise<number | undefined>;
  /** Releases it, if this is its revision. */
  readonly giveUp: (revision: number) => Promise<unknown>;
  /** Calls `lose` with the reason when another owner is seen to have taken it since this revision. Returns the function that stops. */
  readonly onTaken: (lose: (cause: unknown) => void, revision: () => number) => () => void;
};

type HoldContext = {
  readonly record: HeldRecord;
  /**
   * Called when it is lost, except while it is being released: with the error of the last renewal, with the reason why it is taken, or with deadline_exceeded
   * when this process did not renew it in time.
   */
  readonly onLost: (cause: unknown) => void;
  readonly signal: AbortSignal;
  readonly now: () => number;
};

export type Held = {
  /** Aborted as soon as it may be lost, and when the caller stops. */
  readonly signal: AbortSignal;
  /** Aborted only when it may be lost: work that finishes an effect after the caller has stopped listens to this one. */
  readonly lost: AbortSignal;
  /** Whether it is ours at this moment, by our monotonic clock; aborts the signal when it is not. */
  readonly isHeld: () => boolean;
};

/** Parts of the time to live until the next renewal: after one that succeeded, after one that was not answered, after one that only lagged behind. */
const NEXT_RENEWAL = { renewed: 1 / 3, unknown: 1 / 10, behind: 0, taken: 0 } as const;

/**
 * Runs the work while the record is renewed, and releases it afterwards. The work's signal is aborted when the time to live has passed since the last
 * successful renewal was sent, and immediately when another owner is seen to have taken it.
 */
export async function holdRecord(
  context: HoldContext,
  work: (held: Held) => Promise<void>,
): Promise<{ readonly heldMs: number }> {
  const { record, signal, now } = context;
  const lost = new AbortController();
  const done = new AbortController();
  let { revision } = record;
  let deadlineMs = record.sentAtMs + record.ttlMs;

  let failure: { readonly error: unknown } | undefined;

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
  const stopObserving = record.onTaken(lose, () => revision);

  const over = AbortSignal.any([lost.signal, done.signal]);
  const renew = async (): Promise<void> => {
    let waitMs = record.ttlMs * NEXT_RENEWAL.renewed;
    for (;;) {
      await pause(waitMs, over);
      // A process that was stopped for a while wakes here, perhaps before the timer.
      if (!isHeld()) return;
      const sentAtMs = now();
      const renewed = await renewOnce(record, revision);
      if (renewed.because === "taken") lose(renewed.error);
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
    // A frozen process may hear of its own write after the record has expired: work that only listens for the abort would never end.
    if (isHeld() && !signal.aborted) {
      await work({ signal: AbortSignal.any([lost.signal, signal]), lost: lost.signal, isHeld });
    }
  } catch (error) {
    if (!(lost.signal.aborted || signal.aborted) || !isUnwinding(error)) throw error;
  } finally {
    done.abort();
    await renewing;
    clearTimeout(timer);
    stopObserving();
    if (!lost.signal.aborted) await release(record, revision);
  }
  return { heldMs: now() - startedAtMs };
}

type Renewal =
  | { readonly because: "renewed" | "behind"; readonly revision: number }
  | { readonly because: "taken"; readonly revision: number; readonly error: unknown }
  | { readonly because: "unknown"; readonly error: unknown };

/** `behind`: an earlier renewal had succeeded and its answer was lost; the next one can follow, but this proves nothing about how long the record is ours. */
async function renewOnce(record: HeldRecord, revision: number): Promise<Renewal> {
  let conflict: unknown;
  try {
    return { because: "renewed", revision: await record.renew(revision) };
  } catch (error) {
    if (faultOf(error)?.code !== "conflict") return { because: "unknown", error };
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

/** Others see the release immediately. When it fails they wait for its time to live. */
async function release(record: HeldRecord, revision: number): Promise<void> {
  try {
    await record.giveUp(revision);
  } catch (error) {
    if (faultOf(error)?.code !== "conflict") return;
    const found = await record.find().catch(() => undefined);
    if (found !== undefined) await record.giveUp(found).catch(() => undefined);
  }
}

/** Whether work threw this because it was stopped. */
function isUnwinding(error: unknown): boolean {
  const code = faultOf(error)?.code;
  if (code === "unavailable" || code === "cancelled" || code === "conflict") return true;
  return error instanceof Error && error.name === "AbortError";
}
