import { once, type EventEmitter } from "node:events";
import { deadline } from "@muster/backoff";

/** Resolves at a ring for this owner, after so long, or at the signal; nothing of the wait stays behind. */
export async function untilRung(bell: EventEmitter, ownerId: string, ms: number, signal: AbortSignal): Promise<void> {
  using over = deadline(ms, [signal]);
  await once(bell, ownerId, { signal: over.signal }).catch(() => undefined);
}
