import type { Bell } from "@muster/backoff";
import { describeFault, faultOf } from "@muster/faults";
import type { Logger } from "@muster/service";
import type { muster } from "@muster/proto";
import type { View } from "@muster/store";
import type { SessionDigest } from "../domain/plan-sweep.ts";
import { isFinished, isQueuedAtLedger, type SessionRecord } from "../domain/session.ts";
import type { ExecutorDeps, Stored } from "../executor.ts";
import type { Wakeups } from "../wakeups.ts";
import { grantedSession } from "./messages.ts";

/** What hints are turned into. */
export type HintDeps = {
  readonly logger: Logger;
  readonly wakeups: Wakeups;
  /** Rings when a pod is seen whose session is over. */
  readonly leftover: Bell;
  readonly index: View<SessionDigest>;
  readonly pods: View<muster.watch.v1.PodState>;
  /** Those of sessions that any replica has finished are forgotten. */
  readonly failures: ExecutorDeps["failures"];
  readonly load: (name: string) => Promise<Stored | undefined>;
  /** The id tells the stream that a hint which every replica hears is one. */
  readonly enqueue: (record: Pick<SessionRecord, "name" | "uid">, messageId: string) => Promise<void>;
};

/** Tells whoever has a session in hand in this process what has changed of records and pods. Somebody else's executor, or none, is told through the queue. */
export function followViews(deps: HintDeps): void {
  const { index, pods, wakeups } = deps;
  index.onChange((name) => {
    const entry = index.get(name);
    if (entry !== undefined && entry.value.finishedAtMs > 0) deps.failures.delete(entry.value.uid);
    const told = wakeups.recordChanged(name, entry?.revision ?? Number.MAX_SAFE_INTEGER);
    if (told || entry === undefined) return;
    const { value, revision } = entry;
    // The request that cancelled it may have tried to queue it just before its executor let it go.
    if (value.queued && value.cancelRequested) {
      void reporting(deps, name, () => deps.enqueue(value, `${value.uid}-cancelled-${revision}`));
    }
  });
  pods.onChange((key) => {
    const session = key.split(".")[1];
    if (session === undefined) return;
    wakeups.podChanged(session);
    const owner = index.get(session)?.value;
    if (pods.get(key)?.value.deleted === false && (owner?.finishedAtMs ?? 0) > 0) deps.leftover.ring();
  });
}

/** A grant wakes the session's executor, or queues the session that waits without one. Each replica hears of it; the stream takes it once. */
export function hearGrant(deps: HintDeps, payload: Uint8Array): void {
  const session = grantedSession(payload);
  if (session === undefined || deps.wakeups.granted(session)) return;
  void reporting(deps, session, async () => {
    const stored = await deps.load(session);
    if (stored === undefined || isFinished(stored.record) || !isQueuedAtLedger(stored.record)) return;
    await deps.enqueue(stored.record, `${stored.record.uid}-granted-${stored.record.reservationId}`);
  });
}

/** What a hint does not bring about, the sweep does. */
async function reporting({ logger }: HintDeps, session: string, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    const fault = faultOf(error);
    if (fault === undefined) throw error;
    logger.warn({ session, reason: describeFault(fault) }, "hint lost");
  }
}
