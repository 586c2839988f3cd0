import { FaultError } from "@muster/faults";
import { RETRY_AFTER_MS } from "./jetstream-fault.ts";

/**
 * Sends a write and detects a failed disk: a server whose disk is full or fails does not answer writes, but answers reads. After half of the time limit it
 * sends a read, so that the result needs no extra time. Rejects as the write does, but with unavailable, disk of nats, if only the read was answered.
 */
export async function confirmStored<Reply>(
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
