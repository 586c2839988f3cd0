import type { EventContext } from "@muster/bus";
import { faultOf, isRetryable } from "@muster/faults";
import { planBroken } from "./domain/plan-session.ts";
import { isFinished } from "./domain/session.ts";
import type { SessionPolicy } from "./domain/snapshot.ts";
import { transitionRecord, transitionTakeOver } from "./domain/transition-record.ts";
import { runSession, type ExecutorDeps } from "./executor.ts";

/** A message that is not kept alive for this time goes to another replica. */
export type MessagePolicy = {
  readonly session: SessionPolicy;
  readonly queue: { readonly ackWaitMs: number; readonly failuresMost: number };
};

/** A message that arrives while we stop goes to somebody else, a little later so that it does not come back to us. */
const STOPPING_RETRY_MS = 500;

/** Holds the message for as long as the session takes. A message that is lost with us is delivered to another replica. */
export async function executeMessage(
  deps: ExecutorDeps,
  policy: MessagePolicy,
  { name, uid }: { readonly name: string; readonly uid: string },
  delivery: EventContext,
  signal: AbortSignal,
): Promise<void> {
  if (signal.aborted) {
    delivery.retry(STOPPING_RETRY_MS);
    return;
  }
  const { ackWaitMs } = policy.queue;
  const alive = setInterval(() => {
    delivery.working();
  }, ackWaitMs / 3);
  try {
    const end = await runSession(deps, policy.session, { name, uid, letGo: () => delivery.ack() }, signal);
    deps.failures.delete(uid);
    deps.logger.info({ session: name, end }, "session left");
    if (end === "stopped") delivery.retry(0);
    // Waiting does not mend it, and somebody has to see it: replayed when it is mended, it goes on.
    if (end === "unreadable") delivery.giveUp(`the record of session ${name} cannot be read`);
    // Whoever has taken a lost session over holds the same message. To acknowledge it would take it from them; handed back after this time it stays theirs while
    // they are alive, because each sign of life of theirs puts it off again, and comes to another executor if they die.
    if (end === "lost") delivery.retry(ackWaitMs);
  } catch (error) {
    const fault = faultOf(error);
    if (fault !== undefined && isRetryable(fault)) throw error;
    const failures = (deps.failures.get(uid) ?? 0) + 1;
    deps.failures.set(uid, failures);
    if (failures < policy.queue.failuresMost) throw error;
    const reason = `failed ${failures} times, at last because ${error instanceof Error ? error.message : String(error)}`;
    deps.logger.error({ session: name, failures, err: error }, "session cannot be run");
    const ended = await endBroken(deps, { name, uid }, reason);
    // What is left to do gets attempts of its own when the sweep queues it. One that could not even be ended is looked at once in each sweep, and is not buried again.
    if (ended) deps.failures.delete(uid);
    if (ended || failures === policy.queue.failuresMost) delivery.giveUp(reason);
  } finally {
    clearInterval(alive);
  }
}

/** True when the session was brought one step nearer to its end, or needs none. Whatever was wrong with the session may be wrong with this too, so that nothing is thrown. */
async function endBroken(
  deps: ExecutorDeps,
  { name, uid }: { readonly name: string; readonly uid: string },
  reason: string,
): Promise<boolean> {
  try {
    const stored = await deps.load(name);
    if (stored?.record.uid !== uid || isFinished(stored.record)) return true;
    const ours = transitionTakeOver(stored.record, deps.executor);
    const record = transitionRecord(ours, planBroken(ours, reason, deps.now()));
    await deps.save(record, stored.revision);
    const last = record.events.length - 1;
    if (isFinished(record)) await deps.announce(record, last, last);
    return true;
  } catch (error) {
    deps.logger.error({ session: name, err: error }, "a session that cannot be run could not be ended");
    return false;
  }
}
