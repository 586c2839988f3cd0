import { faultOf } from "@muster/faults";
import { pause } from "@muster/backoff";
import type { AcquiredLock, Leadership, LockContext } from "./lead.ts";

export type HoldContext = LockContext & { readonly acquired: AcquiredLock; readonly onLost: () => void };

/** Parts of the lock's time until the next renewal: after one that succeeded, after one that was not answered, after one that only lagged behind. */
const NEXT_RENEWAL = { renewed: 1 / 3, unknown: 1 / 10, behind: 0, taken: 0 } as const;

/**
 * Runs the work while the lock is renewed, and gives it up afterwards. The work's signal is aborted when the lock's time has passed since the last renewal that is
 * known to have succeeded, counted from before it was sent, and at once when somebody else is seen to have the lock.
 */
export async function holdLock(
  context: HoldContext,
  work: (leadership: Leadership) => Promise<void>,
): Promise<{ readonly ledMs: number }> {
  const { acquired, observer, signal, now, record } = context;
  const lost = new AbortController();
  const done = new AbortController();
  let { revision } = acquired;
  let deadlineMs = acquired.sentAtMs + record.ttlMs;

  const lose = (): void => {
    if (lost.signal.aborted || done.signal.aborted) return;
    lost.abort();
    if (!signal.aborted) context.onLost();
  };
  const checkDeadline = (): void => {
    const leftMs = deadlineMs - now();
    if (leftMs <= 0) lose();
    else timer = setTimeout(checkDeadline, leftMs);
  };
  const isHeld = (): boolean => {
    if (now() >= deadlineMs) lose();
    return !lost.signal.aborted && !done.signal.aborted;
  };
  let timer: NodeJS.Timeout | undefined;
  checkDeadline();
  const stopObserving = observer.onChange(() => {
    const seen = observer.current();
    if (seen !== undefined && seen.revision > revision && seen.record?.session !== record.session) lose();
  });

  const over = AbortSignal.any([lost.signal, done.signal]);
  const renew = async (): Promise<void> => {
    let waitMs = record.ttlMs * NEXT_RENEWAL.renewed;
    for (;;) {
      await pause(waitMs, over);
      // A process that was stopped for a while wakes here, perhaps before the timer.
      if (!isHeld()) return;
      const sentAtMs = now();
      const renewed = await renewOnce(context, revision);
      if (renewed.because === "taken") lose();
      if (renewed.because === "renewed") deadlineMs = sentAtMs + record.ttlMs;
      if (renewed.because !== "unknown") revision = renewed.revision;
      waitMs = record.ttlMs * NEXT_RENEWAL[renewed.because];
    }
  };
  const renewing = renew();
  const startedAtMs = now();
  try {
    await work({ token: acquired.revision, signal: AbortSignal.any([lost.signal, signal]), isHeld });
  } catch (error) {
    if (!(lost.signal.aborted || signal.aborted) || !isUnwinding(error)) throw error;
  } finally {
    done.abort();
    await renewing;
    clearTimeout(timer);
    stopObserving();
    if (!lost.signal.aborted) await release(context, revision);
  }
  return { ledMs: now() - startedAtMs };
}

type Renewal =
  | { readonly because: "renewed" | "behind"; readonly revision: number }
  | { readonly because: "taken"; readonly revision: number }
  | { readonly because: "unknown" };

/** `behind`: an earlier renewal had succeeded without our hearing of it; the next one can follow, but this proves nothing about how long the lock is ours. */
async function renewOnce(context: HoldContext, revision: number): Promise<Renewal> {
  const { bucket, lock, record } = context;
  try {
    return { because: "renewed", revision: await bucket.update(lock, record, revision) };
  } catch (error) {
    if (faultOf(error)?.code !== "conflict") return { because: "unknown" };
  }
  try {
    const entry = await bucket.get(lock);
    return entry?.value.session === record.session
      ? { because: "behind", revision: entry.revision }
      : { because: "taken", revision };
  } catch {
    return { because: "unknown" };
  }
}

/** Others see it at once. When it cannot be given up they wait for its time. */
async function release(context: HoldContext, revision: number): Promise<void> {
  const { bucket, lock, record } = context;
  const free = { ...record, holder: "" };
  try {
    await bucket.update(lock, free, revision);
  } catch (error) {
    if (faultOf(error)?.code !== "conflict") return;
    const entry = await bucket.get(lock).catch(() => undefined);
    if (entry?.value.session !== record.session) return;
    await bucket.update(lock, free, entry.revision).catch(() => undefined);
  }
}

/** What work throws because it was told to stop. */
function isUnwinding(error: unknown): boolean {
  const code = faultOf(error)?.code;
  if (code === "unavailable" || code === "cancelled" || code === "conflict") return true;
  return error instanceof Error && error.name === "AbortError";
}
