import type { NatsConnection } from "@nats-io/nats-core";
import { computeBackoffMs, pause } from "@muster/backoff";
import { findFault } from "@muster/faults";
import { openBucket, type Bucket } from "./bucket.ts";
import type { Codec } from "./codec.ts";
import { RETRY } from "./connection-events.ts";

type LocksConfig<Value> = {
  readonly name: string;
  readonly codec: Codec<Value>;
  /** Maximum size of the whole bucket in bytes. */
  readonly maxBytes: number;
  /** Time for which the content of the bucket lives without renewal. A request that takes a large part of this time is cancelled. */
  readonly ttlMs: number;
  readonly signal: AbortSignal;
};

const RECORD_BYTES = 4096;
/** Minimum time limit of a request, however short the time to live is. */
const MIN_TIMEOUT_MS = 100;

/** Opens a bucket of locks as soon as the server answers; undefined if the signal is aborted first. */
export async function openLocks<Value>(
  connection: NatsConnection,
  { name, codec, maxBytes, ttlMs, signal }: LocksConfig<Value>,
): Promise<Bucket<Value> | undefined> {
  const timeoutMs = Math.max(MIN_TIMEOUT_MS, Math.ceil(ttlMs / 3));
  for (let failures = 0; !signal.aborted; failures += 1) {
    try {
      return await openBucket(connection, { name, codec, maxBytes, maxValueBytes: RECORD_BYTES, timeoutMs });
    } catch (error) {
      if (findFault(error)?.code !== "unavailable" || connection.isClosed()) throw error;
      await pause(computeBackoffMs(failures + 1, RETRY), signal);
    }
  }
  return undefined;
}
