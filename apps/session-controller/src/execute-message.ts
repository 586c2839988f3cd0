import type { EventContext } from "@muster/bus";
import type { SessionPolicy } from "./domain/snapshot.ts";
import { runSession, type ExecutorDeps } from "./executor.ts";

/** A message that is not kept alive for this time goes to another replica. */
export type MessagePolicy = { readonly session: SessionPolicy; readonly queue: { readonly ackWaitMs: number } };

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
    deps.logger.info({ session: name, end }, "session left");
    if (end === "stopped") delivery.retry(0);
    // Waiting does not mend it, and somebody has to see it: replayed when it is mended, it goes on.
    if (end === "unreadable") delivery.giveUp(`the record of session ${name} cannot be read`);
    // Whoever has taken a lost session over holds the same message. To acknowledge it would take it from them; handed back after this time it stays theirs while
    // they are alive, because each sign of life of theirs puts it off again, and comes to another executor if they die.
    if (end === "lost") delivery.retry(ackWaitMs);
  } finally {
    clearInterval(alive);
  }
}
