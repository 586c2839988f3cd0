import type { NatsConnection } from "@nats-io/nats-core";

export type Leadership = {
  /** Fencing token: larger for each later leader of the same lock. */
  readonly token: number;
  /** Aborted as soon as the lead may be lost: the lock could not be renewed in time, or somebody else took it. */
  readonly signal: AbortSignal;
};

export type LeadOptions = {
  readonly lock: string;
  /** Who we are, unique per process. */
  readonly holder: string;
  /** The lock is free for others this long after its last renewal. Renewed every third of it. */
  readonly ttlMs: number;
  readonly signal: AbortSignal;
  readonly onChange?: (state: "waiting" | "leading" | "lost") => void;
  readonly now?: () => number;
};

/**
 * Runs `work` while this process leads, again each time it becomes the leader, until the signal. Gives the lock up at once when stopped, so that another
 * replica need not wait for the time limit; one that dies is noticed through a watch. Rejects only with what `work` throws.
 */
export function lead(
  connection: NatsConnection,
  options: LeadOptions,
  work: (leadership: Leadership) => Promise<void>,
): Promise<void> {
  void connection;
  void options;
  void work;
  throw new Error("pending");
}
