import { once, type EventEmitter } from "node:events";
import { makeDeadline } from "@muster/backoff";

/** Resolves at the next change of this owner, after `ms`, or at the signal. Removes its listener. */
export async function waitForOwnerChange(
  ownerChanges: EventEmitter,
  ownerId: string,
  ms: number,
  signal: AbortSignal,
): Promise<void> {
  using over = makeDeadline(ms, [signal]);
  await once(ownerChanges, ownerId, { signal: over.signal }).catch(() => undefined);
}
