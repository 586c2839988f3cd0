import type { NatsConnection } from "@nats-io/nats-core";
import type { Codec } from "./codec.ts";

export type Entry<Value> = { readonly key: string; readonly value: Value; readonly revision: number };

export type Change<Value> =
  | { readonly kind: "put"; readonly entry: Entry<Value> }
  | { readonly kind: "delete"; readonly key: string; readonly revision: number }
  /** Everything that was there when the watch began has been told. */
  | { readonly kind: "synced" };

/**
 * Typed key-value on JetStream. Every write names the revision it replaces, so two writers never overwrite each other unseen.
 * Rejects with FaultError: conflict, already_exists, limit_exceeded (value too large), unavailable.
 */
export type Bucket<Value, Input = Value> = {
  readonly name: string;
  get(key: string): Promise<Entry<Value> | undefined>;
  /** Writes a key that does not exist (or was deleted); already_exists otherwise. Returns the revision. */
  create(key: string, value: Input): Promise<number>;
  /** Replaces the value of exactly this revision; conflict otherwise. Returns the new revision. */
  update(key: string, value: Input, expectedRevision: number): Promise<number>;
  /** Deletes the key if it still has this revision; conflict otherwise. */
  delete(key: string, expectedRevision: number): Promise<void>;
  /** Entries whose key matches, in key order. `filter` has the form of a subject: `session.*.>`; all by default. */
  list(filter?: string): Promise<Entry<Value>[]>;
  /** First what is there, then "synced", then every later change, in order per key, until the signal. Survives reconnects without a gap. */
  watch(options: { readonly filter?: string; readonly signal: AbortSignal }): AsyncIterable<Change<Value>>;
};

export type BucketConfig<Value, Input = Value> = {
  readonly name: string;
  readonly codec: Codec<Value, Input>;
  /** Largest value in bytes; default 512 KiB. */
  readonly maxValueBytes?: number;
  /** Size of the whole bucket in bytes; default 256 MiB. */
  readonly maxBytes?: number;
  /** Entries vanish this long after their last write; default never. */
  readonly ttlMs?: number;
};

/** Opens the bucket, creating it when it is not there. Idempotent; safe from many processes at once. */
export function openBucket<Value, Input>(
  connection: NatsConnection,
  config: BucketConfig<Value, Input>,
): Promise<Bucket<Value, Input>> {
  void connection;
  void config;
  throw new Error("pending");
}
