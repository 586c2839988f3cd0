import { planBrokenSession } from "./domain/plan-session.ts";
import { isFinished } from "./domain/session.ts";
import { transitionRecord, transitionTakeOver } from "./domain/transition-record.ts";
import type { SessionDeps } from "./session-deps.ts";

/** Returns true if the session is one step nearer to its end, or needs no step. Never throws, because each operation on the session may fail here too. */
export async function endBroken(deps: SessionDeps, name: string, reason: string): Promise<boolean> {
  try {
    const stored = await deps.load(name);
    if (stored === undefined || isFinished(stored.record)) return true;
    if (stored.record.epoch > deps.token) return false;
    const ours = transitionTakeOver(stored.record, deps);
    const record = transitionRecord(ours, planBrokenSession(ours, reason, deps.now()));
    await deps.save(record, stored.revision);
    const last = record.events.length - 1;
    if (isFinished(record)) await deps.announce(record, last, last);
    return true;
  } catch (error) {
    deps.logger.error({ session: name, err: error }, "a session that cannot be run could not be ended");
    return false;
  }
}
