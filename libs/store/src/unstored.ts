import { FaultError } from "@muster/faults";
import { RETRY_AFTER_MS } from "./jetstream-fault.ts";

/**
 * Sends a write, and says what its silence means: a server whose disk is full or fails does not answer who writes, and answers questions as ever. Where half of the time has
 * passed it is asked one meanwhile, so that nobody waits longer to know. Rejects as the write does, but with unavailable, disk of nats, where only the question was answered.
 */
export async function unlessUnstored<Reply>(
  write: () => Promise<Reply>,
  { question, timeoutMs, doing }: { question: () => Promise<unknown>; timeoutMs: number; doing: string },
): Promise<Reply> {
  const seen = { answer: false };
  const ask = (): void => {
    question().then(
      () => (seen.answer = true),
      () => undefined,
    );
  };
  const timer = setTimeout(ask, timeoutMs / 2);
  try {
    return await write();
  } catch (cause) {
    if (!seen.answer || !(cause instanceof Error) || cause.name !== "TimeoutError") throw cause;
    const fault = { code: "unavailable", dependency: "disk of nats", retryAfterMs: RETRY_AFTER_MS } as const;
    throw new FaultError(fault, { doing: `${doing}: nats answers, and does not store`, cause });
  } finally {
    clearTimeout(timer);
  }
}
